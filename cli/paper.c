/* The paper's figures, tables and claims: what there is, running them, and what our runs say. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

static json_t *text_or_null(const char *text) {
    return *text != '\0' ? json_string(text) : json_null();
}

/* "full, topk:5" as a list. */
static json_t *values_as_json(const char *values) {
    json_t *list = json_array();
    for (const char *at = values; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        json_array_append_new(list, json_stringn(at, length));
        at += length;
        at += strspn(at, ", ");
    }
    return list;
}

/* Tasks, mechanisms, activations, seeds, and what else the entry chooses. */
static json_t *study_as_json(const sf_paper *paper) {
    static const char *const always[] = {"task", "attention", "activation", "seed"};
    char values[SF_PAPER_VALUES_SIZE];
    if (sf_paper_study(paper) == NULL) return json_null();
    json_t *study = json_object();
    const sf_setting *setting;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        sf_paper_values(values, paper, NULL, always[i]);
        json_object_set_new(study, always[i], values_as_json(values));
    }
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if (!sf_paper_chooses(paper, setting) || json_object_get(study, setting->name) != NULL) continue;
        sf_paper_values(values, paper, NULL, setting->name);
        json_object_set_new(study, setting->name, values_as_json(values));
    }
    return study;
}

static json_t *listed_as_json(const sf_paper_info *info, const sf_paper *paper, sf_paper_scale scale, double seconds) {
    const sf_paper_result *result = sf_paper_result_of(paper);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:I, s:I, s:o, s:s, s:o}", "id", info->id, "title",
                     info->title, "shows", info->shows, "says", text_or_null(info->statement), "ours",
                     text_or_null(info->ours), "scale", sf_paper_scale_name(scale), "study", study_as_json(paper),
                     "runs", (json_int_t)result->runs, "finished", (json_int_t)result->finished, "seconds_left",
                     sf_paper_missing(paper) == NULL ? number_or_null(seconds) : json_null(), "note", info->note,
                     "needs_text",
                     sf_paper_missing(paper) != NULL ? json_string(sf_paper_missing(paper)) : json_null());
}

static void print_about(const sf_paper_info *info, const char *indent) {
    printf("%sshows: %s\n", indent, info->shows);
    if (*info->statement != '\0') printf("%sthe paper says: %s\n", indent, info->statement);
    if (*info->ours != '\0') printf("%sour comparison: %s\n", indent, info->ours);
}

static void print_listed(const sf_paper_info *info, const sf_paper *paper, double seconds) {
    const sf_paper_result *result = sf_paper_result_of(paper);
    char left[32];
    say_time(left, seconds);
    printf("%-30s ", info->id);
    if (sf_paper_missing(paper) != NULL)
        printf("   needs a text: %s\n", sf_paper_missing(paper));
    else if (info->is_formula)
        printf("   formulas, no runs\n");
    else if (result->finished == result->runs)
        printf("%4zu runs, all done\n", result->runs);
    else if (info->reads_text)
        printf("%4zu runs, %zu done; how long the rest takes depends on the text\n", result->runs, result->finished);
    else
        printf("%4zu runs, %zu done, the rest takes at most about %s\n", result->runs, result->finished, left);
    printf("    %s\n", info->title);
    print_about(info, "    ");
    if (*info->note != '\0') printf("    at this scale: %s\n", info->note);
}

static sf_paper_machine machine_of(const cli_request *request) {
    return (sf_paper_machine){.precision = (sf_precision)request->config.precision,
                              .architecture = request->config.architecture,
                              .execution = request->options.execution,
                              .text = request->options.text,
                              .store = request->options.store,
                              .prepares = strcmp(request->words[0], "run") == 0};
}

static sf_status open_entry(sf_paper **out, size_t entry, sf_paper_scale scale, const cli_request *request) {
    const sf_paper_machine machine = machine_of(request);
    return sf_paper_open(out, entry, scale, &machine);
}

static int list_entry(json_t *rows, size_t entry, sf_store *store, const cli_request *request, sf_paper_rates *rates) {
    const sf_paper_scale scale = (sf_paper_scale)request->options.scale;
    const sf_paper_info info = sf_paper_describe(entry, scale);
    sf_paper *paper;
    double seconds = 0;
    sf_status status = open_entry(&paper, entry, scale, request);
    if (status != SF_OK) return fail(status);
    status = sf_paper_judge(paper, store);
    if (status == SF_OK) status = sf_paper_cost(&seconds, paper, rates);
    if (status == SF_OK && rows != NULL)
        json_array_append_new(rows, listed_as_json(&info, paper, scale, seconds));
    else if (status == SF_OK)
        print_listed(&info, paper, seconds);
    sf_paper_close(paper);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int list_all(sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    sf_paper_rates rates = {0};
    json_t *rows = options->json ? json_array() : NULL;
    for (size_t entry = 0; entry < sf_paper_count(); entry++) {
        const int code = list_entry(rows, entry, store, request, &rates);
        if (code == EXIT_DONE) continue;
        json_decref(rows);
        return code;
    }
    if (rows != NULL) return print_json(rows);
    printf("\nscale %s; 'semfocus paper run ID... --scale smoke|laptop|paper' runs what is missing\n",
           sf_paper_scale_name((sf_paper_scale)options->scale));
    return finish_output();
}

static json_t *row_as_json(const sf_paper_row *row) {
    return json_pack("{s:o, s:s, s:s?, s:o, s:b, s:o, s:o, s:I, s:o}", "what", json_text(row->what), "verdict",
                     sf_paper_word_text(row->word), "of", row->of, "numbers", json_text(row->numbers), "judged",
                     row->judged, "p", number_or_null(row->p), "p_corrected", number_or_null(row->corrected),
                     "together", (json_int_t)row->together, "speedup_in_loss",
                     row->has_loss ? loss_speedup_as_json(&row->loss) : json_null());
}

static void add_points(json_t *points, const sf_paper_scatter *scatter) {
    for (size_t i = 0; i < scatter->count; i++) {
        const sf_paper_point *point = &scatter->points[i];
        json_array_append_new(points,
                              json_pack("{s:s, s:s, s:o, s:o, s:o, s:b}", "figure", scatter->name, "series",
                                        point->series, "name", json_text(point->name), "x", number_or_null(point->x),
                                        "y", number_or_null(point->y), "reached", !point->censored));
    }
}

static json_t *points_as_json(const sf_paper_result *result) {
    json_t *points = json_array();
    for (size_t i = 0; i < result->scatter_count; i++) add_points(points, &result->scatters[i]);
    return points;
}

static json_t *result_as_json(const sf_paper_info *info, sf_paper_scale scale, const sf_paper_result *result) {
    json_t *rows = json_array();
    for (size_t i = 0; i < result->row_count; i++) json_array_append_new(rows, row_as_json(&result->rows[i]));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "id", info->id, "title",
                     info->title, "shows", info->shows, "says", text_or_null(info->statement), "ours",
                     text_or_null(info->ours), "scale", sf_paper_scale_name(scale), "note", info->note, "verdict",
                     sf_paper_word_text(result->word), "sentence", result->sentence, "runs", (json_int_t)result->runs,
                     "finished", (json_int_t)result->finished, "comparisons", rows, "points", points_as_json(result));
}

static void print_rows(const sf_paper_result *result) {
    for (size_t i = 0; i < result->row_count; i++)
        printf("  %-19s  %s%s%s\n", sf_paper_word_text(result->rows[i].word), result->rows[i].what,
               *result->rows[i].numbers != '\0' ? ": " : "", result->rows[i].numbers);
}

static void print_result(const sf_paper_info *info, const sf_paper *paper, sf_paper_scale scale) {
    const sf_paper_result *result = sf_paper_result_of(paper);
    printf("\n%s: %s\n", info->id, info->title);
    print_about(info, "");
    print_rows(result);
    if (info->is_formula)
        printf("%s: %s\n", sf_paper_word_text(result->word), result->sentence);
    else
        printf("%s at scale %s%s%s%s: %s\n", sf_paper_word_text(result->word), sf_paper_scale_name(scale),
               *info->note != '\0' ? " (" : "", info->note, *info->note != '\0' ? ")" : "", result->sentence);
}

typedef struct measuring { /* what is shown while runs are measured */
    moving_line line;
} measuring;

static void show_measuring(void *context, size_t done, size_t total, const char *what) {
    moving_line_draw(&((measuring *)context)->line, "%s: %zu of %zu", what, done, total);
}

static int measure(sf_paper *paper, sf_store *store, const sf_options *options) {
    measuring shown;
    moving_line_open(&shown.line, options->quiet != 0 || options->json != 0);
    say_when_stopped(options->store); /* what is measured goes into the store at once */
    const sf_status status =
        sf_paper_measure(paper, store, &(sf_paper_watch){.on_progress = show_measuring, .context = &shown});
    say_when_stopped(NULL);
    moving_line_close(&shown.line);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int write_figures(const sf_paper *paper, const char *id, sf_store *store, const sf_options *options) {
    if (*options->figures == '\0') return EXIT_DONE;
    const sf_status status = sf_paper_write_figures(paper, id, store, options->figures);
    if (status != SF_OK) return fail(status);
    if (!options->json && !options->quiet) printf("figures: %s/%s\n", options->figures, id);
    return EXIT_DONE;
}

/* For an entry whose runs are done. */
static int measure_and_tell(json_t *results, sf_paper *paper, const sf_paper_info *info, sf_store *store,
                            const sf_options *options) {
    const sf_paper_scale scale = (sf_paper_scale)options->scale;
    const int measured = measure(paper, store, options);
    if (measured != EXIT_DONE) return measured;
    const sf_status status = sf_paper_judge(paper, store);
    if (status != SF_OK) return fail(status);
    if (results != NULL)
        json_array_append_new(results, result_as_json(info, scale, sf_paper_result_of(paper)));
    else
        print_result(info, paper, scale);
    return write_figures(paper, info->id, store, options);
}

/* `share` begins with the runs of this entry; *count becomes their number if it has any. */
static int run_entry(size_t *count, json_t *results, size_t entry, sf_store *store, const cli_request *request,
                     const cli_share *share) {
    const sf_options *options = &request->options;
    const sf_paper_scale scale = (sf_paper_scale)options->scale;
    const sf_paper_info info = sf_paper_describe(entry, scale);
    sf_paper *paper;
    bool done = true;
    const sf_status status = open_entry(&paper, entry, scale, request);
    if (status != SF_OK) return fail(status);
    int code = EXIT_DONE;
    if (sf_paper_missing(paper) != NULL && request->word_count == 2) { /* others are run without it */
        code = fail_usage("%s needs a text: %s", info.id, sf_paper_missing(paper));
        done = false;
    } else if (sf_paper_study(paper) != NULL) {
        sf_study_runs(sf_paper_study(paper), count);
        code = run_study(sf_paper_study(paper), store, options, share, EVERY_RUN, &done);
    }
    if (done) {
        const int told = measure_and_tell(results, paper, &info, store, options);
        if (told != EXIT_DONE) code = told;
    }
    sf_paper_close(paper);
    return code;
}

static bool needs_store(const cli_request *request) {
    for (size_t i = 1; i < request->word_count; i++) {
        size_t entry = 0;
        (void)sf_paper_find(&entry, request->words[i]); /* checked before */
        if (!sf_paper_describe(entry, (sf_paper_scale)request->options.scale).is_formula) return true;
    }
    return false;
}

typedef struct plan {     /* the runs of all entries, one after the other */
    sf_planned_run *runs; /* [count] */
    size_t count;
} plan;

static int add_entry(plan *all, size_t entry, const cli_request *request) {
    sf_paper *paper;
    const sf_status status = open_entry(&paper, entry, (sf_paper_scale)request->options.scale, request);
    if (status != SF_OK) return fail(status);
    size_t count = 0;
    const sf_planned_run *runs = sf_paper_study(paper) != NULL ? sf_study_runs(sf_paper_study(paper), &count) : NULL;
    sf_planned_run *grown = realloc(all->runs, (all->count + count + 1) * sizeof *grown);
    if (grown != NULL) {
        all->runs = grown;
        if (count > 0) memcpy(grown + all->count, runs, count * sizeof *runs);
        all->count += count;
    } else {
        fail_usage("no memory left to plan %zu runs", all->count + count);
    }
    sf_paper_close(paper);
    return grown != NULL ? EXIT_DONE : EXIT_FAILED;
}

/* Entries share runs, so the runs of all of them are dealt together. */
static int open_share_of_all(cli_share *out, const cli_request *request) {
    plan all = {0};
    int code = EXIT_DONE;
    *out = (cli_share){0};
    for (size_t i = 1; i < request->word_count && code == EXIT_DONE && sf_options_given(&request->options, "shard");
         i++) {
        size_t entry = 0;
        (void)sf_paper_find(&entry, request->words[i]); /* checked before */
        code = add_entry(&all, entry, request);
    }
    if (code == EXIT_DONE) code = open_share(out, all.runs, all.count, &request->options);
    free(all.runs);
    return code;
}

static int run_each(json_t *results, sf_store *store, const cli_request *request, const cli_share *share) {
    cli_share rest = *share;
    int code = EXIT_DONE;
    for (size_t i = 1; i < request->word_count && code == EXIT_DONE; i++) {
        size_t entry = 0, count = 0;
        (void)sf_paper_find(&entry, request->words[i]); /* checked before */
        code = run_entry(&count, results, entry, store, request, &rest);
        if (rest.places != NULL) rest.places += count;
    }
    return code;
}

static int run_entries(const cli_request *request, const cli_share *share) {
    const sf_options *options = &request->options;
    sf_store *store = NULL;
    const sf_status status = needs_store(request) ? sf_store_open(&store, options->store, SF_STORE_WRITE) : SF_OK;
    if (status != SF_OK) return fail(status);
    json_t *results = options->json ? json_array() : NULL;
    const int code = run_each(results, store, request, share);
    sf_store_close(store);
    if (code == EXIT_DONE) tell_how_to_join(share, options);
    if (results == NULL) return code == EXIT_DONE ? finish_output() : code;
    if (code == EXIT_DONE) return print_json(results);
    json_decref(results);
    return code;
}

static int check_and_run(const cli_request *request) {
    if (request->word_count < 2)
        return fail_usage("usage: semfocus paper run ID...; 'semfocus paper list' lists the entries");
    bool reads_text = false;
    for (size_t i = 1; i < request->word_count; i++) {
        size_t entry;
        const sf_status status = sf_paper_find(&entry, request->words[i]);
        if (status != SF_OK) return fail(status);
        reads_text |= sf_paper_describe(entry, (sf_paper_scale)request->options.scale).reads_text;
    }
    if (*request->options.text != '\0' && !reads_text)
        return fail_usage("text has no effect on these entries; leave it out");
    cli_share share;
    int code = check_figures(&request->options);
    if (code != EXIT_DONE) return code;
    code = open_share_of_all(&share, request);
    if (code == EXIT_DONE) code = run_entries(request, &share);
    close_share(&share);
    return code;
}

static void print_told(const sf_paper_info *info, sf_paper_scale scale, const sf_paper_result *result, bool brief) {
    printf("%-30s %-7s %-19s  %s\n", info->id, sf_paper_scale_name(scale), sf_paper_word_text(result->word),
           result->sentence);
    if (result->finished == result->runs && result->finished > 0 && !brief) print_rows(result);
}

/* With --scale, only that scale; without it, laptop and the other scales that have some runs. */
static bool is_told(const sf_paper_result *result, sf_paper_scale scale, const sf_options *options) {
    if (scale == (sf_paper_scale)options->scale) return true;
    return !sf_options_given(options, "scale") && result->finished > 0;
}

static int tell_entry(json_t *rows, size_t entry, sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    for (int scale = SF_SMOKE; scale < SF_SCALES; scale++) {
        if (sf_options_given(options, "scale") && scale != (int)options->scale) continue;
        const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)scale);
        sf_paper *paper;
        sf_status status = open_entry(&paper, entry, (sf_paper_scale)scale, request);
        if (status != SF_OK) return fail(status);
        status = sf_paper_judge(paper, store);
        const sf_paper_result *result = sf_paper_result_of(paper);
        if (status == SF_OK && is_told(result, (sf_paper_scale)scale, options)) {
            if (rows != NULL)
                json_array_append_new(rows, result_as_json(&info, (sf_paper_scale)scale, result));
            else
                print_told(&info, (sf_paper_scale)scale, result, options->quiet != 0);
        }
        sf_paper_close(paper);
        if (status != SF_OK) return fail(status);
    }
    return EXIT_DONE;
}

/* The entries that a request names after its first word, or all of them. Release with free(). */
typedef struct named_entries {
    size_t *entries; /* [count] */
    size_t count;
} named_entries;

static int find_named(named_entries *out, const cli_request *request) {
    out->count = request->word_count > 1 ? request->word_count - 1 : sf_paper_count();
    out->entries = calloc(out->count, sizeof *out->entries);
    if (out->entries == NULL) return fail_usage("no memory left for %zu entries", out->count);
    for (size_t i = 0; i < out->count; i++) {
        out->entries[i] = i;
        const sf_status status =
            request->word_count > 1 ? sf_paper_find(&out->entries[i], request->words[i + 1]) : SF_OK;
        if (status != SF_OK) return fail(status);
    }
    return EXIT_DONE;
}

static int write_page(const named_entries *named, sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    const sf_paper_page page = {.scale =
                                    sf_options_given(options, "scale") ? (sf_paper_scale)options->scale : SF_SCALES,
                                .entries = named->entries,
                                .count = named->count};
    const sf_paper_machine machine = machine_of(request);
    const sf_status status = sf_paper_write(options->out, &page, store, &machine);
    if (status != SF_OK) return fail(status);
    if (!options->quiet && strcmp(options->out, "-") != 0) printf("written: %s\n", on_one_line(options->out));
    return finish_output();
}

static int tell_each(const named_entries *named, sf_store *store, const cli_request *request) {
    json_t *rows = request->options.json ? json_array() : NULL;
    for (size_t i = 0; i < named->count; i++) {
        const int code = tell_entry(rows, named->entries[i], store, request);
        if (code == EXIT_DONE) continue;
        json_decref(rows);
        return code;
    }
    return rows != NULL ? print_json(rows) : finish_output();
}

/* At the scale of the request, if the store has finished runs of the entry; formulas need none. */
static int draw_entry(size_t entry, sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)options->scale);
    sf_paper *paper;
    sf_status status = open_entry(&paper, entry, (sf_paper_scale)options->scale, request);
    if (status != SF_OK) return fail(status);
    status = sf_paper_judge(paper, store);
    int code = status == SF_OK ? EXIT_DONE : fail(status);
    if (code == EXIT_DONE && (info.is_formula || sf_paper_result_of(paper)->finished > 0))
        code = write_figures(paper, info.id, store, options);
    sf_paper_close(paper);
    return code;
}

static int draw_each(const named_entries *named, sf_store *store, const cli_request *request) {
    int code = check_figures(&request->options);
    for (size_t i = 0; i < named->count && code == EXIT_DONE; i++) code = draw_entry(named->entries[i], store, request);
    return code;
}

static int tell_all(sf_store *store, const cli_request *request) {
    named_entries named;
    int code = find_named(&named, request);
    if (code == EXIT_DONE) code = (*request->options.out != '\0' ? write_page : tell_each)(&named, store, request);
    if (code == EXIT_DONE && *request->options.figures != '\0') code = draw_each(&named, store, request);
    free(named.entries);
    return code;
}

static int read_only(const cli_request *request, int (*act)(sf_store *store, const cli_request *request)) {
    sf_store *store = NULL;
    const sf_status status = open_if_there(&store, request->options.store);
    const int code = status == SF_OK ? act(store, request) : fail(status);
    sf_store_close(store);
    return code;
}

static int run(const cli_request *request) {
    const char *what = request->words[0];
    if (strcmp(what, "status") != 0 && *request->options.out != '\0')
        return fail_usage("out has no effect without 'paper status'; leave it out");
    if (strcmp(what, "list") == 0 && *request->options.figures != '\0')
        return fail_usage("figures has no effect with 'paper list'; leave it out");
    if (strcmp(what, "run") != 0 && *request->options.text != '\0')
        return fail_usage("text has no effect without 'paper run', which remembers it; leave it out");
    if (strcmp(what, "run") != 0 && sf_options_given(&request->options, "shard"))
        return fail_usage("shard has no effect without 'paper run'; leave it out");
    if (strcmp(what, "list") == 0 && request->word_count > 1)
        return fail_usage("'semfocus paper list' takes no ids but got '%.40s'", request->words[1]);
    if (strcmp(what, "list") == 0) return read_only(request, list_all);
    if (strcmp(what, "status") == 0) return read_only(request, tell_all);
    if (strcmp(what, "run") == 0) return check_and_run(request);
    return fail_usage("'semfocus paper %.40s' is unknown; use list, run or status", what);
}

const cli_verb verb_paper = {
    .name = "paper",
    .usage = "list | run ID... [--figures DIR] | status [ID...] [--out FILE.md] [--figures DIR]   "
             "[--scale smoke|laptop|paper]",
    .summary = "list, run and judge every figure, table and claim of the paper, and questions beyond it",
    .details =
        "list shows every entry: the figure's curves, what the paper says, what we compare, and how long its missing\n"
        "runs would take on this machine. run trains and measures what is missing and says whether our runs agree;\n"
        "entries share runs, and after Ctrl-C or a kill, repeating the command continues. With --figures it writes\n"
        "each entry's figures as SVG and CSV into DIR/ID. status shows the verdicts so far, of all entries or of "
        "those\n"
        "that are named, from the store alone: at the scale that --scale names, otherwise at laptop and every other\n"
        "scale that has runs; with --out as Markdown, with --figures also as figures, at one scale. Entries open-...\n"
        "ask what the paper does not.\n"
        "Figures 19 and 20 and open-pretraining read a text, which run --text names and the store remembers.\n"
        "A difference that is not significant neither agrees nor disagrees. Figures 21 and 22 are formulas and need\n"
        "no run.\n"
        "example: semfocus paper run tab-6 --scale smoke\n",
    .groups = SF_GROUP_PAPER | SF_GROUP_SAVING | SF_GROUP_SHARD | SF_GROUP_OUT | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "list|run|status",
    .next_words = "ID",
    .run = run,
};
