#!/usr/bin/env python3
"""Write N bytes of mixed text for tokenizer measures: English prose (Python's own reference topics), a block in many
scripts, then code (Python's library). The same bytes for the same Python version.

    make_text.py OUT.txt [BYTES=1000000]
"""
import glob
import os
import sys

SCRIPTS = ("Größe, façade, naïve coöperation — déjà vu. Быстрая коричневая лиса прыгает через ленивую собаку. "
           "人工智能正在改变世界。機械学習モデルを端末で動かす。안녕하세요, 만나서 반갑습니다. مرحبا بالعالم "
           "नमस्ते दुनिया। 3.14159 2026-11-15 12:34:56 🚀🔥👩‍💻 x² + y² = z²\n")


def parts():
    from pydoc_data import topics
    for key in sorted(topics.topics):
        yield topics.topics[key]
    yield SCRIPTS * 400
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
        with open(path, encoding="utf-8") as f:
            yield f.read()


def main():
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    text = b""
    for part in parts():
        text += part.encode()
        if len(text) >= size:
            break
    text = text[:size].decode("utf-8", "ignore").encode()
    with open(sys.argv[1], "wb") as f:
        f.write(text)
    print(len(text), "bytes")


if __name__ == "__main__":
    main()
