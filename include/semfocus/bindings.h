/* For other languages, as the Python package in python/: what they call besides the functions of the other headers that
 * take only handles, numbers and text. Nothing here passes a structure whose members may change; rows come as JSON
 * (numbers that are not finite are null), curves and logits as arrays of numbers.
 *
 *   sf_study *study;
 *   char *rows;
 *   sf_study_create(&study); sf_study_add_tasks(study, "even-pairs"); sf_study_plan(study);
 *   sf_study_train(study, store, &stop, NULL, NULL);
 *   sf_study_judge(study, store);
 *   sf_study_results_json(&rows, study);
 *   sf_text_release(rows); */
#ifndef SEMFOCUS_BINDINGS_H
#define SEMFOCUS_BINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/plugin.h"
#include "semfocus/status.h"
#include "semfocus/store.h"
#include "semfocus/study.h"

SF_API_BEGIN

/* Releases text and arrays that functions below gave; NULL is legal. */
void sf_text_release(void *text);

/* The table of settings: [{"name", "default", "help", "in" ("run": of a run, or "study"), "choices", ...}]. */
sf_status sf_settings_json(char **out);
/* Tasks, selectors, extras, weightings and score transforms: {"tasks": [{"name", "summary"}], ...}. */
sf_status sf_parts_json(char **out);

/* What a session tells: sf_event_kind, index of the run, and what the kind says is there. */
typedef void (*sf_flat_event)(void *context, int kind, size_t run, const char *id, const char *message, size_t epoch,
                              double train_loss, double train_accuracy, double heldout_loss, double heldout_accuracy,
                              size_t step, size_t steps);
/* Trains what is missing of a planned study, with the study's own threads, device, name and so on; as sf_session_run().
 * `on_event` may be NULL; steps are told a few times per second at most. */
sf_status sf_study_train(const sf_study *study, sf_store *store, const sf_stop_flag *stop, sf_flat_event on_event,
                         void *context);
/* The planned runs: [{"id", "task", "attention", "seed", "epochs"}]. */
sf_status sf_study_runs_json(char **out, const sf_study *study);
/* The groups of a judged study, with their verdicts; names as in 'semfocus compare --json'. */
sf_status sf_study_results_json(char **out, const sf_study *study);

/* The runs of a store, or those for which the SQL condition holds, with what people wrote on them ("name", "tags" as
 * "one, other", "note", "archived") and every setting under "settings". Archived ones are left out unless
 * sf_store_show_archived() was called. */
sf_status sf_store_runs_json(char **out, sf_store *store, const char *where);
enum { SF_CURVE_COLUMNS = 6 }; /* epoch, training loss and accuracy, held-out loss and accuracy, seconds */
sf_status sf_store_curve_numbers(double **out /* [*rows,SF_CURVE_COLUMNS] */, size_t *rows, sf_store *store,
                                 const char *id);
/* What training with measure_every recorded: [{"epoch", "block", "measure", "q0", "q1", ..., "q100"}]. */
sf_status sf_store_measures_json(char **out, sf_store *store, const char *id);
/* The weights as a safetensors file. */
sf_status sf_store_write_weights(sf_store *store, const char *id, bool best, const char *path);

/* A stored model that computes logits. It uses as many threads as there are cores, unless told otherwise. */
typedef struct sf_predictor sf_predictor;
sf_status sf_predictor_open(sf_predictor **out, sf_store *store, const char *id, int at /* sf_weights_at */,
                            size_t threads);
/* What the model is, for programs that rebuild it; as the metadata of exported weights. */
sf_status sf_predictor_json(char **out, const sf_predictor *predictor);
size_t sf_predictor_classes(const sf_predictor *predictor);
size_t sf_predictor_labels(const sf_predictor *predictor);    /* logits per sequence: 1, or one row per position */
size_t sf_predictor_positions(const sf_predictor *predictor); /* that the model reads: CLS, padding, globals */
/* Writes what the model reads of a sequence: CLS, its tokens, padding, global tokens. */
sf_status sf_predictor_lay_out(int32_t *tokens /* [positions] */, const sf_predictor *predictor,
                               const int32_t *sequence /* [length] */, size_t length);
/* Logits of `count` sequences, which lie one after the other in `tokens`. SF_BAD_INPUT for tokens that the task does
 * not have, and for sequences longer than those it was trained on. */
sf_status sf_predictor_run(float *logits /* [count,labels,classes] */, sf_predictor *predictor, const int32_t *tokens,
                           const size_t *lengths /* [count] */, size_t count);
void sf_predictor_close(sf_predictor *predictor); /* NULL is legal */

/* Parts in another language. The functions are called by any thread, once per batch, block and head, with what
 * sf_selector.prepare_batch and sf_weighting.weigh_batch get; `source` is what the ids of runs depend on. A part of the
 * same name that was registered here is replaced.
 *
 * A selector's `prepare` reads the scores ([T,T]) of each sequence and writes into its scratch: a sentence of
 * SF_FOREIGN_SENTENCE bytes, "" or why it failed, and one byte per query and key, [T,T], not 0: kept. */
enum { SF_FOREIGN_SENTENCE = 448 };
sf_status sf_foreign_selector(const char *name, const char *summary, const char *source, bool takes_k, bool keeps_k,
                              bool not_causal,
                              void (*prepare)(void *const *scratch, const sf_head_input *heads, size_t count));
/* A weighting writes its sentence into rows->scratch, and NaN into its result if there is one. */
sf_status sf_foreign_weighting(const char *name, const char *summary, const char *source, bool not_causal,
                               void (*weigh)(double *const *weights, const double *const *scores,
                                             const sf_weighing_matrix *rows, size_t count),
                               void (*backward)(double *const *dscores, const double *const *dweights,
                                                const double *const *weights, const double *const *scores,
                                                const sf_weighing_matrix *rows, size_t count));

SF_API_END

#endif
