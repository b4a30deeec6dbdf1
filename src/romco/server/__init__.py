"""Live service: predicts, takes answers later, learns each once, and loses nothing."""

from romco.server.client import Client, ServiceError

__all__ = ["Client", "ServiceError"]
