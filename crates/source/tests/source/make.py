"""Makes the fixtures of the tests of spatial formats, with GDAL: `target/venv/bin/python crates/source/tests/source/make.py`.

They are small enough to be kept, so that the tests need neither GDAL nor Python.
"""
