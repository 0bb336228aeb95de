"""What every package shares: errors, frame types, atomic files. Standard library and numpy only."""
