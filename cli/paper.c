/* The paper's figures, tables and claims: what there is, running them, and what our runs say. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/progress.h"

static json_t *listed_as_json(const sf_paper_info *info, const sf_paper_result *result, sf_paper_scale scale,
                              double seconds) {
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:s, s:o}", "id", info->id, "title", info->title, "says",
                     info->statement, "scale", sf_paper_scale_name(scale), "runs", (json_int_t)result->runs, "finished",
                     (json_int_t)result->finished, "seconds_left",
                     info->unavailable == NULL ? json_real(seconds) : json_null(), "note", info->note, "unavailable",
                     info->unavailable != NULL ? json_string(info->unavailable) : json_null());
}

static void print_listed(const sf_paper_info *info, const sf_paper_result *result, double seconds) {
    char left[32];
    say_time(left, seconds);
    printf("%-30s ", info->id);
    if (info->unavailable != NULL)
        printf("%s\n", info->unavailable);
    else if (result->finished == result->runs)
        printf("%4zu runs, all here\n", result->runs);
    else
        printf("%4zu runs, %zu here, the rest at most about %s\n", result->runs, result->finished, left);
    printf("    %s\n    says: %s\n", info->title, info->statement);
    if (*info->note != '\0') printf("    at this scale: %s\n", info->note);
}

static int list_entry(json_t *rows, size_t entry, sf_store *store, const sf_config *config, sf_paper_rates *rates) {
    const sf_paper_scale scale = (sf_paper_scale)config->scale;
    const sf_paper_info info = sf_paper_describe(entry, scale);
    sf_paper *paper;
    double seconds = 0;
    sf_status status = sf_paper_open(&paper, entry, scale, config);
    if (status != SF_OK) return fail(status);
    status = sf_paper_judge(paper, store);
    if (status == SF_OK) status = sf_paper_cost(&seconds, paper, rates);
    if (status == SF_OK && rows != NULL)
        json_array_append_new(rows, listed_as_json(&info, sf_paper_result_of(paper), scale, seconds));
    else if (status == SF_OK)
        print_listed(&info, sf_paper_result_of(paper), seconds);
    sf_paper_close(paper);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int list_all(sf_store *store, const sf_config *config) {
    sf_paper_rates rates = {0};
    json_t *rows = config->json ? json_array() : NULL;
    for (size_t entry = 0; entry < sf_paper_count(); entry++) {
        const int code = list_entry(rows, entry, store, config, &rates);
        if (code == EXIT_DONE) continue;
        json_decref(rows);
        return code;
    }
    if (rows != NULL) return print_json(rows);
    printf("\nscale %s; 'semfocus paper run ID... --scale smoke|laptop|paper' runs what is missing\n",
           sf_paper_scale_name((sf_paper_scale)config->scale));
    return finish_output();
}

static json_t *result_as_json(const sf_paper_info *info, sf_paper_scale scale, const sf_paper_result *result) {
    json_t *rows = json_array();
    for (size_t i = 0; i < result->row_count; i++) {
        const sf_paper_row *row = &result->rows[i];
        json_array_append_new(rows, json_pack("{s:o, s:s, s:o}", "what", json_text(row->what), "verdict",
                                              sf_paper_word_text(row->word), "numbers", json_text(row->numbers)));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o}", "id", info->id, "title", info->title, "says",
                     info->statement, "scale", sf_paper_scale_name(scale), "note", info->note, "verdict",
                     sf_paper_word_text(result->word), "sentence", result->sentence, "runs", (json_int_t)result->runs,
                     "finished", (json_int_t)result->finished, "comparisons", rows);
}

static void print_rows(const sf_paper_result *result) {
    for (size_t i = 0; i < result->row_count; i++)
        printf("  %-15s  %s: %s\n", sf_paper_word_text(result->rows[i].word), result->rows[i].what,
               result->rows[i].numbers);
}

static void print_result(const sf_paper_info *info, sf_paper_scale scale, const sf_paper_result *result) {
    printf("\n%s: %s\nsays: %s\n", info->id, info->title, info->statement);
    print_rows(result);
    printf("%s at scale %s%s%s%s: %s\n", sf_paper_word_text(result->word), sf_paper_scale_name(scale),
           *info->note != '\0' ? " (" : "", info->note, *info->note != '\0' ? ")" : "", result->sentence);
}

typedef struct measuring { /* what is shown while runs are measured */
    moving_line line;
} measuring;

static void show_measuring(void *context, size_t done, size_t total, const char *what) {
    moving_line_draw(&((measuring *)context)->line, "%s: %zu of %zu", what, done, total);
}

static int measure(sf_paper *paper, sf_store *store, const sf_config *config) {
    measuring shown;
    moving_line_open(&shown.line, config->quiet != 0 || config->json != 0);
    say_when_stopped(config->store); /* what is measured goes into the store at once */
    const sf_status status =
        sf_paper_measure(paper, store, &(sf_paper_watch){.on_progress = show_measuring, .context = &shown});
    say_when_stopped(NULL);
    moving_line_close(&shown.line);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

static int run_entry(json_t *results, size_t entry, sf_store *store, const sf_config *config) {
    const sf_paper_scale scale = (sf_paper_scale)config->scale;
    const sf_paper_info info = sf_paper_describe(entry, scale);
    sf_paper *paper;
    bool done = false;
    sf_status status = sf_paper_open(&paper, entry, scale, config);
    if (status != SF_OK) return fail(status);
    int code = run_study(sf_paper_study(paper), store, config, EVERY_RUN, &done);
    if (done) {
        const int measured = measure(paper, store, config);
        status = measured == EXIT_DONE ? sf_paper_judge(paper, store) : SF_OK;
        if (status != SF_OK)
            code = fail(status);
        else if (measured != EXIT_DONE)
            code = measured;
        else if (results != NULL)
            json_array_append_new(results, result_as_json(&info, scale, sf_paper_result_of(paper)));
        else
            print_result(&info, scale, sf_paper_result_of(paper));
    }
    sf_paper_close(paper);
    return code;
}

static int run_entries(const cli_request *request) {
    const sf_config *config = &request->config;
    sf_store *store;
    const sf_status status = sf_store_open(&store, config->store, SF_STORE_WRITE);
    if (status != SF_OK) return fail(status);
    json_t *results = config->json ? json_array() : NULL;
    int code = EXIT_DONE;
    for (size_t i = 1; i < request->word_count && code == EXIT_DONE; i++) {
        size_t entry = 0;
        (void)sf_paper_find(&entry, request->words[i]); /* checked before */
        code = run_entry(results, entry, store, config);
    }
    sf_store_close(store);
    if (results == NULL) return code == EXIT_DONE ? finish_output() : code;
    if (code == EXIT_DONE) return print_json(results);
    json_decref(results);
    return code;
}

static int check_and_run(const cli_request *request) {
    if (request->word_count < 2)
        return fail_usage("usage: semfocus paper run ID...; 'semfocus paper list' names the entries");
    for (size_t i = 1; i < request->word_count; i++) {
        size_t entry;
        const sf_status status = sf_paper_find(&entry, request->words[i]);
        if (status != SF_OK) return fail(status);
        const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)request->config.scale);
        if (info.unavailable != NULL) return fail_usage("%s cannot be run: it %s", info.id, info.unavailable);
    }
    return run_entries(request);
}

static void print_told(const sf_paper_info *info, sf_paper_scale scale, const sf_paper_result *result, bool brief) {
    printf("%-30s %-7s %-15s  %s\n", info->id, sf_paper_scale_name(scale), sf_paper_word_text(result->word),
           result->sentence);
    if (result->word != SF_NOT_ENOUGH_RUNS && !brief) print_rows(result);
}

/* A scale is told of if some of its runs are there; the one asked for always. */
static int tell_entry(json_t *rows, size_t entry, sf_store *store, const sf_config *config) {
    for (int scale = SF_SMOKE; scale < SF_SCALES; scale++) {
        const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)scale);
        sf_paper *paper;
        sf_status status = sf_paper_open(&paper, entry, (sf_paper_scale)scale, config);
        if (status != SF_OK) return fail(status);
        status = sf_paper_judge(paper, store);
        const sf_paper_result *result = sf_paper_result_of(paper);
        if (status == SF_OK && (result->finished > 0 || scale == config->scale)) {
            if (rows != NULL)
                json_array_append_new(rows, result_as_json(&info, (sf_paper_scale)scale, result));
            else
                print_told(&info, (sf_paper_scale)scale, result, config->quiet != 0);
        }
        sf_paper_close(paper);
        if (status != SF_OK) return fail(status);
    }
    return EXIT_DONE;
}

static int tell_all(sf_store *store, const sf_config *config) {
    if (*config->out != '\0') {
        const sf_status status = sf_paper_write(config->out, store, config);
        if (status != SF_OK) return fail(status);
        if (!config->quiet && strcmp(config->out, "-") != 0) printf("written: %s\n", on_one_line(config->out));
        return finish_output();
    }
    json_t *rows = config->json ? json_array() : NULL;
    for (size_t entry = 0; entry < sf_paper_count(); entry++) {
        const int code = tell_entry(rows, entry, store, config);
        if (code == EXIT_DONE) continue;
        json_decref(rows);
        return code;
    }
    return rows != NULL ? print_json(rows) : finish_output();
}

static int read_only(const cli_request *request, int (*act)(sf_store *store, const sf_config *config)) {
    sf_store *store = NULL;
    if (request->word_count > 1)
        return fail_usage("'semfocus paper %s' takes no ids but got '%.40s'", request->words[0], request->words[1]);
    const sf_status status = open_if_there(&store, request->config.store);
    const int code = status == SF_OK ? act(store, &request->config) : fail(status);
    sf_store_close(store);
    return code;
}

static int run(const cli_request *request) {
    const char *what = request->words[0];
    if (strcmp(what, "status") != 0 && *request->config.out != '\0')
        return fail_usage("out has no effect without 'paper status'; leave it out");
    if (strcmp(what, "list") == 0) return read_only(request, list_all);
    if (strcmp(what, "status") == 0) return read_only(request, tell_all);
    if (strcmp(what, "run") == 0) return check_and_run(request);
    return fail_usage("'semfocus paper %.40s' is not known; it is list, run or status", what);
}

const cli_verb verb_paper = {
    .name = "paper",
    .usage = "list | run ID... | status [--scale smoke|laptop|paper] [--out FILE.md]",
    .summary = "every figure, table and claim of the paper: what it says, what it takes, what our runs say",
    .details =
        "list tells the entries, what the paper says there, and what the missing runs take here. run trains and\n"
        "measures what is missing and says whether our runs agree; entries share their runs, and after Ctrl-C\n"
        "or a kill the same command goes on. status tells what was reached at which scale, from the store\n"
        "alone; with --out as Markdown.\n"
        "example: semfocus paper run table-dispersion --scale smoke\n",
    .groups = SF_GROUP_PAPER | SF_GROUP_SAVING | SF_GROUP_OUT | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .run = run,
};
