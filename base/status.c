#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_SIZE = 1024 };

static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local const char *about = "";

const char *sf_message(void) {
    return message;
}

const char *sf_message_setting(void) {
    return about;
}

static void keep(const char *setting, const char *format, va_list arguments) {
    char text[MESSAGE_SIZE]; /* the arguments may point into `message` itself */
    vsnprintf(text, sizeof text, format, arguments);
    memcpy(message, text, sizeof message);
    about = setting;
}

sf_status sf_fail(sf_status code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep("", format, arguments);
    va_end(arguments);
    return code;
}

sf_status sf_fail_on(sf_status code, const char *setting, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep(setting, format, arguments);
    va_end(arguments);
    return code;
}

sf_status sf_fail_about(sf_status code, const char *setting) {
    if (code != SF_OK) about = setting;
    return code;
}

sf_status sf_fail_in(sf_status code, const char *where, ...) {
    if (code == SF_OK) return code;
    char place[MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, where);
    vsnprintf(place, sizeof place, where, arguments);
    va_end(arguments);
    return sf_fail_on(code, about, "%s: %s", place, message);
}
