#include "drive.h"
const struct part kernel_parts[] = { { NULL, NULL } };
