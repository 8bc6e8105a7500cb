#include "drive.h"
const struct part sandbox_parts[] = { { NULL, NULL } };
