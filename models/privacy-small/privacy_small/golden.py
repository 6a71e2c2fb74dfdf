"""Writes golden/: what transformers computes on the stored weights, to compare other implementations with.

    python -m privacy_small.golden CHECKPOINT OUTPUT_FOLDER       (needs torch and transformers)

input_ids.npy [tokens] int64, logits.npy [tokens, 33] float32. The text is longer than what one layer sees.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import OpenAIPrivacyFilterForTokenClassification

TEXT = """\
Dear Ms. Okafor,

thank you for your call on 14 March 2024. We will send the new card to Hazel Quist, 27 Larkspur Lane, Apt. 4,
Dunmore 18512. Her number is +1 (570) 555-0142 and her mail address hazel.quist@example.org. The old account,
DE44 5001 0517 5407 3249 31, is closed. Please do not answer to this address; the manual is at
https://docs.example.com/en/latest/cards.html.

Grüße aus Köln, Jürgen Weiß. Мария Петрова живёт в Твери. 我叫王伟，电话 138 0013 8000。
user: hquist  password: Tulip-7719!  version 2.14.0, order 88123, total 1,250.00 €
"The weather was fine," said old Tomasz, and nobody in the village asked him again.
Profile: https://www.hazelquist.net/about
"""


def main(checkpoint: str, output: str) -> None:
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    ids = Tokenizer.from_file(str(Path(checkpoint) / "tokenizer.json")).encode(TEXT).ids
    model = OpenAIPrivacyFilterForTokenClassification.from_pretrained(
        checkpoint, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.inference_mode():
        logits = model.eval()(torch.tensor([ids])).logits[0].numpy()
    np.save(folder / "input_ids.npy", np.array(ids, np.int64))
    np.save(folder / "logits.npy", logits.astype(np.float32))
    print(f"{len(ids)} tokens, largest logit {np.abs(logits).max():.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
