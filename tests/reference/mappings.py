"""Mappings to sparse rows, written plainly: the twin of ``romco.kernels.io.mappings``."""


def hash_name(name):
    h = 14695981039346656037
    for byte in name.encode():
        h = (h ^ byte) * 1099511628211 % 2**64
    h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCD % 2**64
    h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53 % 2**64
    return h ^ (h >> 33)


def pairs(row):
    """Names and values: text becomes name=value with value 1, None is absent."""
    for name, value in row.items():
        if isinstance(value, str):
            yield f"{name}={value}", 1.0
        elif value is not None:
            yield name, float(value)


def hashed(row, size):
    """Columns and their values."""
    found = {}
    for name, value in pairs(row):
        h = hash_name(str(name))
        found[h % size] = found.get(h % size, 0.0) + (-value if h >= 2**63 else value)
    return dict(sorted(found.items()))


def named(row, known):
    """Columns and their values; new names get the next columns."""
    found = {}
    for name, value in pairs(row):
        column = known.setdefault(name, len(known))
        found[column] = found.get(column, 0.0) + value
    return dict(sorted(found.items()))
