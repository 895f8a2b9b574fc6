"""The decisions: which server assets may go to the trash, which wait, which a person must look at.

Pure: no network, no clock, no Prefect, no files of its own. It computes with DuckDB on the relations it is
handed, and with plain functions on the small facts. docs/rules.md is its specification in this project's words.
"""
