"""The compiled halves of the other learners."""
