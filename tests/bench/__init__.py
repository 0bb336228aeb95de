"""Tests of what measures: figures that are wrong mislead for long."""
