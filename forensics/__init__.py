"""Verify a recording without a key, open it with one, and remember every opening."""
