#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *count_or_null(size_t count) {
    return count > 0 ? json_integer((json_int_t)count) : json_null();
}

json_t *run_as_json(const sf_stored_run *run) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, run->weights_hash);
    const bool has_rows = run->epochs > 0;
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", json_text(run->id),
        "task", json_text(run->task), "attention", json_text(run->attention), "seed", (json_int_t)run->seed, "status",
        json_text(run->status), "message", *run->message != '\0' ? json_text(run->message) : json_null(), "epochs",
        (json_int_t)run->epochs, "converged_epoch", count_or_null(run->converged_epoch), "train_accuracy",
        has_rows ? json_real(run->train_accuracy) : json_null(), "heldout_accuracy",
        has_rows ? json_real(run->heldout_accuracy) : json_null(), "best_epoch", count_or_null(run->best_epoch),
        "best_heldout_accuracy", has_rows ? json_real(run->best_accuracy) : json_null(), "diverged_epoch",
        count_or_null(run->diverged_epoch), "diverged_step", count_or_null(run->diverged_step), "isa",
        json_text(run->isa), "weights", run->checkpoint_epoch > 0 ? json_string(hash) : json_null());
}

typedef struct listing { /* what is shown of the runs of a store */
    sf_store *store;
    sf_criterion criterion;
    bool is_usual;  /* 95 % training accuracy, which the store knows for every run */
    size_t arrival; /* of the run being looked at; 0: not yet */
    json_t *rows;   /* NULL: a table */
    size_t count;
    sf_status status;
} listing;

static void look_at_epoch(void *context, const sf_epoch *row) {
    listing *shown = context;
    if (shown->arrival == 0 && sf_criterion_met(&shown->criterion, row, SF_TRAINING)) shown->arrival = row->epoch;
}

/* When the run met the criterion. */
static size_t arrival_of(listing *shown, const sf_stored_run *run) {
    if (shown->is_usual || shown->status != SF_OK) return run->converged_epoch;
    shown->arrival = 0;
    shown->status = sf_store_each_epoch(shown->store, run, look_at_epoch, shown);
    return shown->arrival;
}

/* Every setting that defines the run, as numbers and texts. */
static json_t *settings_as_json(const sf_config *config) {
    json_t *out = json_object();
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        char text[SF_TEXT_SIZE];
        if (!sf_setting_changes_numbers(setting, config)) continue;
        sf_config_text(text, config, setting);
        json_object_set_new(out, setting->name,
                            setting->kind == SF_INTEGER ? json_integer(strtoll(text, NULL, 10))
                            : setting->kind == SF_REAL  ? json_real(strtod(text, NULL))
                            : setting->kind == SF_FLAG  ? json_boolean(strcmp(text, "yes") == 0)
                                                        : json_text(text));
    }
    return out;
}

static json_t *text_or_null(const char *text) {
    return *text != '\0' ? json_text(text) : json_null();
}

static json_t *tags_as_json(const char *tags) {
    json_t *out = json_array();
    char tag[SF_TAG_SIZE];
    for (size_t length; *tags != '\0'; tags += length + strspn(tags + length, ", ")) {
        length = strcspn(tags, ",");
        snprintf(tag, sizeof tag, "%.*s", (int)length, tags);
        json_array_append_new(out, json_text(tag));
    }
    return out;
}

/* As run_as_json(), with what people wrote on the run and how it was made. */
static json_t *describe_run(listing *shown, const sf_stored_run *run, const sf_run_labels *labels) {
    sf_config config;
    json_t *row = run_as_json(run);
    json_object_set_new(row, "name", text_or_null(labels->name));
    json_object_set_new(row, "tags", tags_as_json(labels->tags));
    json_object_set_new(row, "note", text_or_null(labels->note));
    json_object_set_new(row, "archived", json_boolean(labels->archived));
    if (shown->status == SF_OK) shown->status = sf_store_list_config(&config, shown->store, run);
    if (shown->status == SF_OK) json_object_set_new(row, "settings", settings_as_json(&config));
    return row;
}

/* Behind the row: "name" #tag, #tag */
static void print_labels(const sf_run_labels *labels) {
    if (*labels->name != '\0') printf("  \"%s\"", on_one_line(labels->name));
    if (*labels->tags != '\0') printf("  [%s]", on_one_line(labels->tags));
    if (labels->archived) fputs("  archived", stdout);
    putchar('\n');
    if (*labels->note != '\0') printf("%-16s  %s\n", "", on_one_line(labels->note));
}

enum { ROW_COLUMNS = 125, COUNTS_COLUMNS = 63, INDENT = 2 };

/* The columns that are counts and results, on a line of their own, or on two where the terminal is narrower still. */
static void print_counts(const char *seed, const char *status, const char *epochs, const char *converged,
                         const char *trained, const char *heldout) {
    const bool two_lines = output_width() < COUNTS_COLUMNS;
    printf("%*s%10s  %-8s %6s%s", INDENT, "", seed, status, epochs, two_lines ? "\n" : "");
    printf("%*s %11s %9s %9s\n", two_lines ? INDENT : 0, "", converged, trained, heldout);
}

static size_t labels_columns(const sf_run_labels *labels) {
    const size_t row = (*labels->name != '\0' ? 4 + strlen(on_one_line(labels->name)) : 0) +
                       (*labels->tags != '\0' ? 4 + strlen(on_one_line(labels->tags)) : 0) +
                       (labels->archived ? strlen("  archived") : 0);
    return *labels->note != '\0' && output_width() != SIZE_MAX ? output_width() : row; /* a note is long */
}

static void print_labels_below(const sf_run_labels *labels) {
    if (*labels->name != '\0') print_indented(INDENT, "%*s\"%s\"", INDENT, "", on_one_line(labels->name));
    if (*labels->tags != '\0') print_indented(INDENT, "%*s[%s]", INDENT, "", on_one_line(labels->tags));
    if (labels->archived) print_indented(INDENT, "%*sarchived", INDENT, "");
    if (*labels->note != '\0') print_indented(INDENT, "%*s%s", INDENT, "", on_one_line(labels->note));
}

/* On a terminal that is narrower than the table: names above, numbers below. */
static void print_run_narrowly(listing *shown, const sf_stored_run *run, const sf_run_labels *labels) {
    char seed[24], epochs[24], converged[24] = "not reached", trained[24] = "-", heldout[24] = "-";
    if (shown->count++ == 0) {
        print_indented(INDENT, "%-16s  %-28s %s", "id", "task", "attention");
        print_counts("seed", "status", "epochs", "converged", "train acc", "held-out");
    }
    print_indented(INDENT, "%-16s  %-28s %s", run->id, on_one_line(run->task), on_one_line(run->attention));
    snprintf(seed, sizeof seed, "%lld", (long long)run->seed);
    snprintf(epochs, sizeof epochs, "%zu", run->epochs);
    if (run->converged_epoch > 0) snprintf(converged, sizeof converged, "%zu", run->converged_epoch);
    if (run->epochs > 0) snprintf(trained, sizeof trained, "%.2f%%", run->train_accuracy);
    if (run->epochs > 0) snprintf(heldout, sizeof heldout, "%.2f%%", run->heldout_accuracy);
    print_counts(seed, on_one_line(run->status), epochs, run->epochs > 0 ? converged : "not run", trained, heldout);
    print_labels_below(labels);
}

/* Columns of a row: a long name makes it wider. */
static size_t row_columns(const sf_stored_run *run) {
    enum { TASK = 28, ATTENTION = 18 };
    const size_t task = strlen(on_one_line(run->task)), attention = strlen(on_one_line(run->attention));
    return ROW_COLUMNS + (task > TASK ? task - TASK : 0) + (attention > ATTENTION ? attention - ATTENTION : 0);
}

static void print_run(listing *shown, const sf_stored_run *run, const sf_run_labels *labels) {
    const size_t width = output_width();
    if (width < ROW_COLUMNS || row_columns(run) > width) {
        print_run_narrowly(shown, run, labels);
        return;
    }
    if (shown->count++ == 0)
        printf("%-16s  %-28s %-18s %10s  %-8s %6s %11s %9s %9s\n", "id", "task", "attention", "seed", "status",
               "epochs", "converged", "train acc", "held-out");
    char converged[24] = "not reached";
    if (run->converged_epoch > 0) snprintf(converged, sizeof converged, "%zu", run->converged_epoch);
    printf("%-16s  %-28s %-18s %10lld  %-8s %6zu %11s ", run->id, on_one_line(run->task), on_one_line(run->attention),
           (long long)run->seed, on_one_line(run->status), run->epochs, run->epochs > 0 ? converged : "not run");
    if (run->epochs > 0)
        printf("%8.2f%% %8.2f%%", run->train_accuracy, run->heldout_accuracy);
    else
        printf("%9s %9s", "-", "-");
    if (row_columns(run) + labels_columns(labels) <= width) {
        print_labels(labels);
        return;
    }
    putchar('\n');
    print_labels_below(labels);
}

static void show_run(void *context, const sf_stored_run *stored) {
    listing *shown = context;
    sf_stored_run run = *stored;
    sf_run_labels labels;
    run.converged_epoch = arrival_of(shown, stored);
    if (shown->status == SF_OK) shown->status = sf_store_labels(&labels, shown->store, stored);
    if (shown->status != SF_OK) return;
    if (shown->rows != NULL) {
        json_t *row = describe_run(shown, &run, &labels);
        shown->status = add_text_result(row, shown->store, stored);
        json_array_append_new(shown->rows, row);
        return;
    }
    print_run(shown, &run, &labels);
}

static int show_runs(sf_store *store, const sf_options *options) {
    listing shown = {.store = store, .rows = options->json ? json_array() : NULL};
    sf_status status = sf_criterion_parse(&shown.criterion, options->converged_at);
    shown.is_usual = !shown.criterion.is_loss && shown.criterion.value == SF_CONVERGED_AT;
    if (status == SF_OK) status = sf_store_each_run(store, options->where, show_run, &shown);
    if (status == SF_OK) status = shown.status;
    if (status != SF_OK) {
        json_decref(shown.rows);
        return fail(status);
    }
    if (shown.rows != NULL) return print_json(shown.rows);
    if (shown.count == 0) puts("no runs");
    return finish_output();
}

static int run(const cli_request *request) {
    if (request->word_count > 0 && (*request->options.where != '\0' || *request->options.against != '\0'))
        return fail_usage("'semfocus runs %.40s' takes ids of runs, not --where or --against", request->words[0]);
    if (request->word_count > 0) return label_runs(request);
    if (*request->options.against != '\0') return compare_stores(request);
    sf_store *store;
    const sf_status status = open_for_query(&store, &request->options);
    if (status != SF_OK) return fail(status);
    const int code = show_runs(store, &request->options);
    sf_store_close(store);
    return code;
}

const cli_verb verb_runs = {
    .name = "runs",
    .usage = "[--where SQL] [--against STORE] | name|tag|untag|note RUN... TEXT | archive|unarchive RUN...",
    .summary = "list the runs of a store; name, tag, annotate and archive them; compare two stores",
    .details =
        "The column 'converged' is the first epoch with 95 % training accuracy, or as --converged-at says.\n"
        "Columns for --where: id, task, attention, seed, status, epochs, converged_epoch, train_accuracy,\n"
        "heldout_accuracy, best_epoch, best_heldout_accuracy (or best_accuracy), diverged_epoch, message, isa, name,\n"
        "tags, note, archived, every setting of a run (lr, train_count, ... with _ for -), settings, environment,\n"
        "earlier_id (the id of a run in a version that had other ids).\n"
        "The condition may only read the store and compute, for at most 10 seconds.\n"
        "Names, tags and notes are shown in tables, JSON and reports. Archived runs are hidden from these unless\n"
        "--archived is given; nothing of them is deleted. --against says which runs are in both stores, and\n"
        "whether they are equal to the bit; exit code 1 if some differ.\n"
        "examples: semfocus runs --where \"attention LIKE 'topk%' AND lr = 0.1\"\n"
        "          semfocus runs tag 3f2a 77b0 good\n"
        "          semfocus runs note 3f2a \"diverges with a larger learning rate\"\n"
        "          semfocus runs --against other-store\n",
    .groups = SF_GROUP_QUERY | SF_GROUP_GOAL | SF_GROUP_COMPARE | COMMON_GROUPS,
    .most_words = (size_t)-1,
    .first_word = "name|tag|untag|note|archive|unarchive",
    .next_words = "RUN",
    .run = run,
};
