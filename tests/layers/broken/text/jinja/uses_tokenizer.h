// Breaks the rule on purpose: the layer check must refuse this folder.
#include "text/tokenizer/spec.h"
