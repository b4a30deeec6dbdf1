"""A live service: predicts, takes answers later, learns each once, and loses nothing."""

from romco.service.client import Client, ServiceError

__all__ = ["Client", "ServiceError"]
