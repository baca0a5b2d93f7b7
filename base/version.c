#include "semfocus/version.h"

const char *sf_version(void) {
    return SF_VERSION;
}
