"""The steps of a reconciliation, one module per step. A step is a thin wrapper of engine, state, server or library."""
