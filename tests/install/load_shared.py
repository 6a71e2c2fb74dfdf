"""Loads libanemone_c with ctypes alone, encodes a text with a bundle's tokenizer and prints what decoding gives.
    load_shared.py LIBRARY BUNDLE"""
import ctypes
import sys

c = ctypes.CDLL(sys.argv[1])
c.anemone_last_error.restype = ctypes.c_char_p


def check(status):
    if status:
        sys.exit("error: " + c.anemone_last_error().decode())


tokenizer, ids = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_int32)()
count, text = ctypes.c_size_t(), ctypes.c_char_p()
check(c.anemone_tokenizer_open(sys.argv[2].encode(), ctypes.byref(tokenizer)))
check(c.anemone_encode(tokenizer, b"Once upon a time", 0, ctypes.byref(ids), ctypes.byref(count)))
check(c.anemone_decode(tokenizer, ids, count, 1, ctypes.byref(text)))
print(text.value.decode())
c.anemone_free(text)
c.anemone_free(ids)
c.anemone_tokenizer_close(tokenizer)
if c.anemone_tokenizer_open(b"/no/such/file", ctypes.byref(tokenizer)) == 0 or tokenizer:
    sys.exit("error: a file that is not there was opened")
