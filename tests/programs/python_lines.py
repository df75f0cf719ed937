"""Two arrays made by one helper for two lines of one function, and two by one line; prints what they hold."""

import numpy as np


def make(words):
    return np.ones(words)


def load(words):
    hot = make(words)
    cold = make(words)
    return hot, cold


words = 3 << 20
hot, cold = load(words)
pair = np.zeros(words >> 2), np.full(words >> 2, 2.0)
for _ in range(20):
    hot += 1
print(int(hot.sum()), int(cold[::512].sum()), int(sum(a.sum() for a in pair)))

import ctypes

# Alive when the process ends, so that the kernel can be asked where they are.
for kept in hot, cold:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
