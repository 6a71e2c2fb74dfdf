#include <anemone/anemone.h>
