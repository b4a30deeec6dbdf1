"""ROMCO's factored core."""
