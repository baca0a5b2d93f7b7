/* Training and judging studies. */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/status.h"
#include "bindings/bindings.h"
#include "semfocus/loss_speedup.h"

static const double seconds_between_steps = 0.2;

typedef struct listener {
    sf_flat_event on_event;
    void *context;
    double told; /* when a step was told last */
} listener;

static void pass_on(void *context, const sf_event *event) {
    listener *to = context;
    if (event->kind == SF_EVENT_STEP) {
        const double now = sf_clock_seconds();
        if (now - to->told < seconds_between_steps) return;
        to->told = now;
    }
    to->on_event(to->context, (int)event->kind, event->run, event->id, event->message, event->row.epoch,
                 event->row.train_loss, event->row.train_accuracy, event->row.heldout_loss, event->row.heldout_accuracy,
                 event->step, event->steps);
}

sf_status sf_study_train(const sf_study *study, sf_store *store, const sf_stop_flag *stop, sf_flat_event on_event,
                         void *context) {
    sf_options options;
    listener to = {.on_event = on_event, .context = context};
    sf_session session = {.execution = &options.execution, .stop = stop, .name = options.name};
    sf_study_options(&options, study);
    session.runs = sf_study_runs(study, &session.count);
    if (on_event != NULL) {
        session.on_event = pass_on;
        session.context = &to;
    }
    return sf_session_run(store, &session);
}

sf_status sf_study_runs_json(char **out, const sf_study *study) {
    sf_collected collected;
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    SF_TRY(sf_collect(&collected));
    FILE *to = collected.stream;
    fputc('[', to);
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "{" : ",{", to);
        sf_json_text(to, "{id", runs[i].id);
        sf_json_text(to, "task", runs[i].task);
        sf_json_text(to, "attention", runs[i].attention);
        fprintf(to, ",\"seed\":%" PRId64 ",\"epochs\":%" PRId64 "}", runs[i].config.seed, runs[i].config.epochs);
    }
    fputc(']', to);
    return sf_collected_end(out, &collected, SF_OK);
}

static void put_numbers(FILE *out, const sf_group *group) {
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"epochs_q25", group->quartiles[0]},
                   {"epochs_median", group->quartiles[1]},
                   {"epochs_q75", group->quartiles[2]},
                   {"heldout_epochs_median", group->heldout_median},
                   {"last_heldout", group->last_heldout},
                   {"best_heldout", group->best_heldout},
                   {"gap", group->gap},
                   {"epoch_seconds", group->epoch_seconds},
                   {"speedup", group->speedup},
                   {"speedup_low", group->low},
                   {"speedup_high", group->high},
                   {"p", group->p_speed},
                   {"p_corrected", group->corrected_p_speed},
                   {"p_accuracy", group->p_accuracy},
                   {"p_accuracy_corrected", group->corrected_p_accuracy},
                   {"accuracy_difference", group->accuracy_difference},
                   {"accuracy_difference_low", group->accuracy_low},
                   {"accuracy_difference_high", group->accuracy_high},
                   {"chance", group->chance}};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        sf_json_number(out, numbers[n].name, group->finished > 0 ? numbers[n].value : NAN);
}

static const char *or_null(const char *text) {
    return *text != '\0' ? text : NULL;
}

static void put_members(FILE *out, const sf_study *study, size_t g) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    for (size_t m = 0; m < sf_study_group(study, g)->runs; m++)
        fprintf(out, "%s\"%s\"", m == 0 ? ",\"ids\":[" : ",", runs[sf_study_member(study, g, m)].id);
    fputc(']', out);
}

static void put_loss_speedup(FILE *out, const sf_study *study, size_t g) {
    sf_loss_speedup loss;
    const bool compared = sf_study_group(study, g)->baseline != g && sf_study_loss_speedup(&loss, study, g) == SF_OK;
    if (!compared || isnan(loss.percent)) {
        sf_json_text(out, "speedup_in_loss", NULL);
        return;
    }
    fputs(",\"speedup_in_loss\":{", out);
    sf_json_number(out, "{percent", loss.percent);
    sf_json_number(out, "times", loss.times);
    sf_json_number(out, "largest_difference", loss.difference);
    sf_json_number(out, "largest_relative_difference", loss.relative);
    fputc('}', out);
}

/* For a grid: whether these are the settings with which the mechanism converges soonest, and how it compares there. */
static void put_best_setting(FILE *out, const sf_study *study, size_t g) {
    const sf_group *group = sf_study_group(study, g);
    const bool compared = *group->best_sentence != '\0';
    sf_json_flag(out, "best_setting", group->is_best);
    sf_json_text(out, "best_setting_compared_with", compared ? sf_study_group(study, group->best_rival)->name : NULL);
    sf_json_text(out, "best_setting_verdict", or_null(group->best_sentence));
}

static void put_group(FILE *out, const sf_study *study, size_t g) {
    const sf_group *group = sf_study_group(study, g);
    const bool judged = *group->sentence != '\0';
    char goal[SF_CRITERION_SIZE];
    sf_json_text(out, "{task", group->task);
    sf_json_text(out, "variant", group->name);
    sf_json_count(out, "runs", group->runs);
    sf_json_count(out, "finished", group->finished);
    sf_json_count(out, "converged", group->converged);
    sf_json_count(out, "diverged", group->diverged);
    sf_json_flag(out, "baseline", group->baseline == g);
    sf_json_text(out, "compared_with", sf_study_group(study, group->baseline)->name);
    put_numbers(out, group);
    sf_json_flag(out, "epochs_known", group->finished > 0 && !isnan(group->quartiles[1]));
    sf_json_flag(out, "heldout_epochs_known", group->finished > 0 && !isnan(group->heldout_median));
    sf_json_flag(out, "speedup_is_at_least", group->at_least);
    sf_json_flag(out, "speedup_is_at_most", group->at_most);
    put_loss_speedup(out, study, g);
    sf_json_text(out, "speed", judged ? sf_conclusion_word(group->speed) : NULL);
    sf_json_text(out, "accuracy", judged ? sf_conclusion_word(group->accuracy) : NULL);
    sf_json_flag(out, "at_chance", group->at_chance);
    sf_json_count(out, "comparisons", group->speed_tests);
    sf_json_text(out, "converged_at", sf_criterion_name(goal, sf_study_criterion(study)));
    put_best_setting(out, study, g);
    sf_json_text(out, "verdict", or_null(group->sentence));
    sf_json_text(out, "note", or_null(group->note));
    put_members(out, study, g);
}

sf_status sf_study_results_json(char **out, const sf_study *study) {
    sf_collected collected;
    SF_TRY(sf_collect(&collected));
    fputc('[', collected.stream);
    for (size_t g = 0; g < sf_study_group_count(study); g++) {
        fputs(g == 0 ? "{" : ",{", collected.stream);
        put_group(collected.stream, study, g);
        fputc('}', collected.stream);
    }
    fputc(']', collected.stream);
    return sf_collected_end(out, &collected, SF_OK);
}
