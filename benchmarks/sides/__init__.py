"""What is measured: a module a library, run by that library's own Python.

A side gives `PACKAGES`, the distributions whose versions its numbers depend on,
and `rows()`, from the name of a row to a function that takes the arrays of
`benchmarks.cases` and gives a `cases.Work`.
"""
