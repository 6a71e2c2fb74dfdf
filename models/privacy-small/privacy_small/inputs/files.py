"""Compressed JSON with the same bytes for the same content."""

import gzip
import hashlib
import json
from pathlib import Path


def write_json_gz(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(content, ensure_ascii=False, sort_keys=True).encode()
    path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
    print(f"{path}: {path.stat().st_size} bytes, sha256 of the content {hashlib.sha256(data).hexdigest()}")
