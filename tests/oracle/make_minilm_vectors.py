#!/usr/bin/env python3
"""Makes tests/data/minilm_vectors.npy: what transformers says of the 100 texts in tests/data/minilm_sentences.txt.

    tests/oracle/make_minilm_vectors.py --install VENV      # torch and transformers into a venv, and make the vectors
    tests/oracle/make_minilm_vectors.py                     # with a Python that has them already
    tests/oracle/make_minilm_vectors.py --compare anemone   # converts and embeds as well, and prints the cosines

The model is all-MiniLM-L6-v2, as tools/fetch_minilm.sh fetches it. The vectors are kept in half: a cosine moves by less
than 1e-6. The tests read them and never install torch.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SENTENCES = ROOT / "tests/data/minilm_sentences.txt"
VECTORS = ROOT / "tests/data/minilm_vectors.npy"
MODEL = ROOT / ".cache/minilm"


def install(venv):
    """Makes the venv and runs this script in it."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = pathlib.Path(venv) / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "transformers", "numpy"], check=True)
    arguments = [a for i, a in enumerate(sys.argv) if a != "--install" and sys.argv[i - 1] != "--install"]
    sys.exit(subprocess.run([python, *arguments]).returncode)


def expected(model_folder, texts):
    """Mean over the tokens, length 1, texts cut at 256 tokens: as the model's files say."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModel.from_pretrained(model_folder, attn_implementation="eager").float().eval()
    vectors = []
    for text in texts:  # one by one: nothing is padded
        ids = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**ids).last_hidden_state[0]
        vectors.append(torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy())
    return vectors


def compare(command, model_folder, vectors):
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        for precision in ("fp16", "int8"):
            bundle, out = f"{folder}/{precision}", f"{folder}/{precision}.npy"
            subprocess.run([command, "convert", model_folder, "-o", bundle, "--precision", precision, "--quiet"], check=True)
            subprocess.run([command, "embed", bundle, "--lines", SENTENCES, "--truncate", "-o", out, "--quiet"], check=True)
            got = numpy.load(out).astype("f8")
            cosines = (got * vectors).sum(1) / numpy.linalg.norm(got, axis=1) / numpy.linalg.norm(vectors, axis=1)
            worst = cosines.argmin()
            print(f"{precision}: least cosine {cosines[worst]:.7f} (text {worst}), mean {cosines.mean():.7f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", metavar="VENV", help="make a venv with torch and transformers there, and use it")
    parser.add_argument("--model", default=MODEL, help="the model's folder (.cache/minilm)")
    parser.add_argument("--compare", metavar="ANEMONE", help="the command: also embed with it, and compare")
    args = parser.parse_args()
    if args.install:
        install(args.install)
    import numpy

    texts = SENTENCES.read_text(encoding="utf-8").splitlines()
    vectors = numpy.stack(expected(args.model, texts))
    numpy.save(VECTORS, vectors.astype("f2"))
    print(f"{VECTORS}: {vectors.shape}")
    if args.compare:
        compare(args.compare, args.model, vectors.astype("f8"))


if __name__ == "__main__":
    main()
