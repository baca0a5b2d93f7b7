#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_SIZE = 1024 };

static _Thread_local char message[MESSAGE_SIZE];

const char *sf_message(void) {
    return message;
}

sf_status sf_fail(sf_status code, const char *format, ...) {
    char text[MESSAGE_SIZE]; /* the arguments may point into `message` itself */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(message, text, sizeof message);
    return code;
}

sf_status sf_fail_in(sf_status code, const char *where, ...) {
    if (code == SF_OK) return code;
    char place[MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, where);
    vsnprintf(place, sizeof place, where, arguments);
    va_end(arguments);
    return sf_fail(code, "%s: %s", place, message);
}
