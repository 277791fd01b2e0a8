"""Files of ours: written whole or not at all (`whole`), for people (`spreadsheet`)."""

from .whole import (
    fingerprint,
    read_json,
    release,
    replacing,
    replacing_folder,
    without_passwords,
    write_json,
    write_text,
)

__all__ = [
    "fingerprint",
    "read_json",
    "release",
    "replacing",
    "replacing_folder",
    "without_passwords",
    "write_json",
    "write_text",
]
