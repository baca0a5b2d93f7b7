/* Settings, tasks and parts of mechanisms as JSON. */
#include "base/status.h"
#include "bindings/bindings.h"
#include "semfocus/settings.h"

static void put_setting(FILE *out, const sf_setting *setting) {
    static const char *const kinds[] = {
        [SF_INTEGER] = "integer", [SF_REAL] = "real", [SF_CHOICE] = "choice", [SF_TEXT] = "text", [SF_FLAG] = "flag"};
    fputc('{', out);
    sf_json_text(out, "{name", setting->name);
    sf_json_text(out, "kind", kinds[setting->kind]);
    sf_json_text(out, "in", setting->home == SF_IN_CONFIG ? "run" : "study");
    sf_json_flag(out, "of_studies", (setting->group & SF_STUDY_GROUPS) != 0);
    sf_json_text(out, "default", setting->initial);
    sf_json_text(out, "choices", setting->kind == SF_CHOICE ? setting->choices : NULL);
    sf_json_text(out, "help", setting->help);
    fputc('}', out);
}

sf_status sf_settings_json(char **out) {
    sf_collected collected;
    const sf_setting *setting;
    SF_TRY(sf_collect(&collected));
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        fputs(i == 0 ? "[" : ",", collected.stream);
        put_setting(collected.stream, setting);
    }
    fputc(']', collected.stream);
    return sf_collected_end(out, &collected, SF_OK);
}

static void put_named(FILE *out, size_t i, const char *name, const char *spelling, const char *summary) {
    fputs(i == 0 ? "{" : ",{", out);
    sf_json_text(out, "{name", name);
    sf_json_text(out, "spelling", spelling);
    sf_json_text(out, "summary", summary);
    fputc('}', out);
}

static void put_parts(FILE *out, const char *kind, int (*describe)(sf_part_info *out, size_t i)) {
    sf_part_info part;
    fprintf(out, ",\"%s\":[", kind);
    for (size_t i = 0; describe(&part, i) != 0; i++) put_named(out, i, part.name, part.spelling, part.summary);
    fputc(']', out);
}

sf_status sf_parts_json(char **out) {
    sf_collected collected;
    const sf_task *task;
    SF_TRY(sf_collect(&collected));
    fputs("{\"tasks\":[", collected.stream);
    for (size_t i = 0; (task = sf_task_at(i)) != NULL; i++)
        put_named(collected.stream, i, sf_task_describe(task).name, "", sf_task_describe(task).summary);
    fputc(']', collected.stream);
    put_parts(collected.stream, "selectors", sf_selector_describe);
    put_parts(collected.stream, "extras", sf_extra_describe);
    put_parts(collected.stream, "weightings", sf_weighting_describe);
    put_parts(collected.stream, "score_transforms", sf_score_transform_describe);
    fputc('}', collected.stream);
    return sf_collected_end(out, &collected, SF_OK);
}
