"""Local photo libraries: one small protocol, one module per kind of library."""
