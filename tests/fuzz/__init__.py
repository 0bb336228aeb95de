"""Coverage-guided fuzzing of every parser: ``python -m tests.fuzz TARGET --seconds N``."""
