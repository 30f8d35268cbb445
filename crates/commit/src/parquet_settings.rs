//! How Parquet files are written, as the table's `write.parquet.*` properties say.

use std::collections::HashMap;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::Error;

/// Rows of a full row group, when bytes do not end it earlier.
pub const ROW_GROUP_ROWS: usize = 131_072;

/// What the properties of a table say about its Parquet files; Iceberg's defaults for what they do not say.
#[derive(Clone, Debug, PartialEq)]
pub struct ParquetSettings {
    /// `write.parquet.compression-codec` and `write.parquet.compression-level`: `zstd` by default, or
    /// `snappy`, `gzip`, `lz4`, `brotli`, `uncompressed`.
    pub compression: Compression,
    /// `write.parquet.row-group-size-bytes`: 128 MiB.
    pub row_group_bytes: usize,
    /// `write.parquet.page-size-bytes`: 1 MiB.
    pub page_bytes: usize,
    /// `write.parquet.page-row-limit`: 20,000.
    pub page_rows: usize,
    /// `write.parquet.dict-size-bytes`: 2 MiB.
    pub dictionary_bytes: usize,
    /// Columns with `write.parquet.bloom-filter-enabled.column.<name> = true`, and the false positives allowed by
    /// `write.parquet.bloom-filter-fpp.column.<name>`: 0.01.
    pub bloom_filters: Vec<(String, f64)>,
}

impl ParquetSettings {
    /// Reads the properties.
    ///
    /// # Errors
    ///
    /// [`Error::Property`] for a value that cannot be followed. Files written otherwise than the table asks would be a
    /// surprise later.
    pub fn of(properties: &HashMap<String, String>) -> Result<Self, Error> {
        let mut bloom_filters = Vec::new();
        for (name, value) in properties {
            let Some(column) = name.strip_prefix("write.parquet.bloom-filter-enabled.column.") else { continue };
            if value.trim().eq_ignore_ascii_case("true") {
                let fpp = format!("write.parquet.bloom-filter-fpp.column.{column}");
                bloom_filters.push((column.to_owned(), fraction(properties, &fpp, 0.01)?));
            }
        }
        bloom_filters.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(Self {
            compression: compression(properties)?,
            row_group_bytes: size(properties, "write.parquet.row-group-size-bytes", 128 << 20)?,
            page_bytes: size(properties, "write.parquet.page-size-bytes", 1 << 20)?,
            page_rows: size(properties, "write.parquet.page-row-limit", 20_000)?,
            dictionary_bytes: size(properties, "write.parquet.dict-size-bytes", 2 << 20)?,
            bloom_filters,
        })
    }

    /// The writer properties that say so.
    pub fn writer_properties(&self) -> WriterPropertiesBuilder {
        let mut builder = WriterProperties::builder()
            .set_created_by(concat!("hexfloe version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(self.compression)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_max_row_group_bytes(Some(self.row_group_bytes))
            .set_data_page_size_limit(self.page_bytes)
            .set_data_page_row_count_limit(self.page_rows)
            .set_dictionary_page_size_limit(self.dictionary_bytes);
        for (column, fpp) in &self.bloom_filters {
            let path = ColumnPath::new(column.split('.').map(str::to_owned).collect());
            builder =
                builder.set_column_bloom_filter_enabled(path.clone(), true).set_column_bloom_filter_fpp(path, *fpp);
        }
        builder
    }
}

fn compression(properties: &HashMap<String, String>) -> Result<Compression, Error> {
    const CODEC: &str = "write.parquet.compression-codec";
    const LEVEL: &str = "write.parquet.compression-level";
    let codec = properties.get(CODEC).map_or("zstd", String::as_str);
    let level = |least: i64, most: i64, usual: i64, expected| match properties.get(LEVEL) {
        None => Ok(usual),
        Some(level) => {
            let parsed = level.trim().parse().ok().filter(|parsed| (least..=most).contains(parsed));
            parsed.ok_or_else(|| refused(LEVEL, level, expected))
        }
    };
    let small = |level: i64| u32::try_from(level).unwrap_or_default();
    let codec = match codec.trim().to_ascii_lowercase().as_str() {
        "zstd" => {
            let level = level(1, 22, ZstdLevel::default().compression_level().into(), "a level of zstd, 1 to 22")?;
            i32::try_from(level).ok().and_then(|level| ZstdLevel::try_new(level).ok()).map(Compression::ZSTD)
        }
        "gzip" => {
            let usual = GzipLevel::default().compression_level().into();
            GzipLevel::try_new(small(level(0, 9, usual, "a level of gzip, 0 to 9")?)).ok().map(Compression::GZIP)
        }
        "brotli" => {
            let usual = BrotliLevel::default().compression_level().into();
            BrotliLevel::try_new(small(level(0, 11, usual, "a level of brotli, 0 to 11")?))
                .ok()
                .map(Compression::BROTLI)
        }
        "lz4" => Some(Compression::LZ4_RAW),
        "snappy" => Some(Compression::SNAPPY),
        "uncompressed" | "none" => Some(Compression::UNCOMPRESSED),
        _ => None,
    };
    let known = "`zstd`, `snappy`, `gzip`, `lz4`, `brotli` or `uncompressed`";
    codec.ok_or_else(|| refused(CODEC, properties.get(CODEC).map_or("zstd", String::as_str), known))
}

fn size(properties: &HashMap<String, String>, name: &str, default: usize) -> Result<usize, Error> {
    let Some(value) = properties.get(name) else { return Ok(default) };
    let size = value.trim().parse().ok().filter(|size| *size > 0);
    size.ok_or_else(|| refused(name, value, "a number above zero"))
}

fn fraction(properties: &HashMap<String, String>, name: &str, default: f64) -> Result<f64, Error> {
    let Some(value) = properties.get(name) else { return Ok(default) };
    let fraction = value.trim().parse().ok().filter(|fraction: &f64| *fraction > 0.0 && *fraction < 1.0);
    fraction.ok_or_else(|| refused(name, value, "a number between 0 and 1"))
}

fn refused(property: &str, value: &str, expected: &'static str) -> Error {
    Error::Property { property: property.to_owned(), value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_a_table_does_not_say_is_icebergs_default() {
        let settings = ParquetSettings::of(&HashMap::new()).unwrap();
        assert_eq!(settings.compression, Compression::ZSTD(ZstdLevel::default()));
        assert_eq!((settings.row_group_bytes, settings.page_bytes), (134_217_728, 1_048_576));
        assert_eq!((settings.page_rows, settings.dictionary_bytes), (20_000, 2_097_152));
    }

    #[test]
    fn what_a_table_says_reaches_the_writer() {
        let settings = ParquetSettings::of(&properties(&[
            ("write.parquet.compression-codec", "ZSTD"),
            ("write.parquet.compression-level", "7"),
            ("write.parquet.page-size-bytes", "1000"),
            ("write.parquet.page-row-limit", "10"),
            ("write.parquet.dict-size-bytes", "2000"),
            ("write.parquet.row-group-size-bytes", "3000"),
            ("write.parquet.bloom-filter-enabled.column.id", "true"),
            ("write.parquet.bloom-filter-fpp.column.id", "0.05"),
            ("write.parquet.bloom-filter-enabled.column.name", "false"),
        ]))
        .unwrap();
        let writer = settings.writer_properties().build();
        let column = |name: &str| ColumnPath::from(name);
        assert_eq!(writer.compression(&column("id")), Compression::ZSTD(ZstdLevel::try_new(7).unwrap()));
        assert_eq!(writer.column_data_page_size_limit(&column("id")), 1_000);
        assert_eq!(writer.data_page_row_count_limit(), 10);
        assert_eq!(writer.column_dictionary_page_size_limit(&column("id")), 2_000);
        assert_eq!(writer.max_row_group_bytes(), Some(3_000));
        assert_eq!(writer.bloom_filter_properties(&column("id")).map(|bloom| bloom.fpp), Some(0.05));
        assert_eq!(writer.bloom_filter_properties(&column("name")), None);
    }

    #[rstest]
    #[case("gzip", Compression::GZIP(GzipLevel::default()))]
    #[case("Snappy", Compression::SNAPPY)]
    #[case("lz4", Compression::LZ4_RAW)]
    #[case("brotli", Compression::BROTLI(BrotliLevel::default()))]
    #[case("uncompressed", Compression::UNCOMPRESSED)]
    fn every_codec_of_the_format_can_be_asked_for(#[case] name: &str, #[case] codec: Compression) {
        let settings = ParquetSettings::of(&properties(&[("write.parquet.compression-codec", name)])).unwrap();
        assert_eq!(settings.compression, codec);
    }

    #[rstest]
    #[case("write.parquet.compression-codec", "lzo")]
    #[case("write.parquet.compression-level", "99")]
    #[case("write.parquet.page-size-bytes", "0")]
    #[case("write.parquet.row-group-size-bytes", "1 MB")]
    fn what_cannot_be_followed_is_refused_by_name(#[case] property: &str, #[case] value: &str) {
        let message = ParquetSettings::of(&properties(&[(property, value)])).unwrap_err().to_string();
        assert!(message.contains(property) && message.contains(value), "{message}");
    }
}
