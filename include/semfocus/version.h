/* The version of semfocus: of these headers (SF_VERSION), and of the library that a program runs with (sf_version()).
 * Programs linked with the shared library of one SF_VERSION_MAJOR and SF_VERSION_MINOR run with every later patch. */
#ifndef SEMFOCUS_VERSION_H
#define SEMFOCUS_VERSION_H

#include "semfocus/api.h"

SF_API_BEGIN

#define SF_VERSION_MAJOR 0
#define SF_VERSION_MINOR 1
#define SF_VERSION_PATCH 0
#define SF_VERSION       SF_VERSION_TEXT(SF_VERSION_MAJOR, SF_VERSION_MINOR, SF_VERSION_PATCH) /* "0.1.0" */

#define SF_VERSION_TEXT(major, minor, patch)  SF_VERSION_QUOTE(major, minor, patch)
#define SF_VERSION_QUOTE(major, minor, patch) #major "." #minor "." #patch

const char *sf_version(void); /* never NULL; any thread */

SF_API_END

#endif
