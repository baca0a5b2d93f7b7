/* semfocus: does this attention mechanism learn faster and generalize better, and why? All public headers. */
#ifndef SEMFOCUS_SEMFOCUS_H
#define SEMFOCUS_SEMFOCUS_H

#include "semfocus/api.h"
#include "semfocus/attention.h"
#include "semfocus/benchmark.h"
#include "semfocus/criterion.h"
#include "semfocus/describe.h"
#include "semfocus/files.h"
#include "semfocus/fleet.h"
#include "semfocus/followup.h"
#include "semfocus/golden.h"
#include "semfocus/landscape.h"
#include "semfocus/loss_speedup.h"
#include "semfocus/measure.h"
#include "semfocus/merge.h"
#include "semfocus/paper.h"
#include "semfocus/plugin.h"
#include "semfocus/ranks.h"
#include "semfocus/report.h"
#include "semfocus/session.h"
#include "semfocus/settings.h"
#include "semfocus/shard.h"
#include "semfocus/status.h"
#include "semfocus/store.h"
#include "semfocus/study.h"
#include "semfocus/task.h"
#include "semfocus/text.h"
#include "semfocus/theory.h"
#include "semfocus/version.h"

#endif
