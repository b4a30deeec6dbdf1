"""A live service: predicts, takes answers later, learns each once, and loses nothing."""
