#!/usr/bin/env python3
"""The polynomials of `src/vector.rs`: sine and cosine on [0, pi/4], of least absolute error, by Remez exchange.

    pip install mpmath==1.3.0 && python3 data/polynomials.py

Prints the coefficients as the doubles nearest to them, and the error that the rounded ones have.
"""

from mpmath import cos, lu_solve, matrix, mp, mpf, pi, sin

mp.dps = 50
END = pi / 4


def minimax(function, powers, grid=4000):
    """Coefficients c so that max |function(x) - sum c_k x**powers[k]| over [0, END] is least."""
    count = len(powers)
    nodes = [END * (1 - cos(pi * k / count)) / 2 for k in range(count + 1)]
    if powers[0] > 0:  # the error is 0 at 0, whatever the coefficients
        nodes[0] = nodes[1] / 3
    points = [END * k / grid for k in range(grid + 1)]
    for _ in range(12):
        rows = [[x**power for power in powers] + [mpf((-1) ** k)] for k, x in enumerate(nodes)]
        solution = lu_solve(matrix(rows), matrix([function(x) for x in nodes]))
        coefficients = list(solution)[:count]
        errors = [function(x) - sum(c * x**p for c, p in zip(coefficients, powers)) for x in points]
        # One extremum for each run of one sign.
        extrema, start = [], 0
        for k in range(1, len(points) + 1):
            if k == len(points) or (errors[k] > 0) != (errors[start] > 0):
                extrema.append(max(range(start, k), key=lambda n: abs(errors[n])))
                start = k
        if len(extrema) < count + 1:
            break
        nodes = [points[k] for k in extrema[-(count + 1) :]]
    return coefficients


def main():
    for name, function, powers in (("SIN", sin, range(1, 12, 2)), ("COS", cos, range(0, 13, 2))):
        powers = list(powers)
        rounded = [float(c) for c in minimax(function, powers)]
        error = max(abs(function(x) - sum(mpf(c) * x**p for c, p in zip(rounded, powers))) for x in (END * k / 9973 for k in range(9974)))
        print(f"/// Error at most {float(error):.1e}.")
        print(f"const {name}: [f64; {len(powers)}] = [{', '.join(map(repr, rounded))}];")


if __name__ == "__main__":
    main()
