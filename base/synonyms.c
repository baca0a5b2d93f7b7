#include "base/synonyms.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

typedef struct synonyms {
    sf_name_kind kind;
    const char *meaning;
    const char *words; /* with a blank before and after each */
} synonyms;

static const synonyms table[] = {
    {SF_NAMES_COMMANDS, "train", " fit learn run start resume continue "},
    {SF_NAMES_COMMANDS, "compare", " sweep grid experiment versus vs "},
    {SF_NAMES_COMMANDS, "runs", " ls show status history tag note archive ps "},
    {SF_NAMES_COMMANDS, "delete", " rm remove drop purge "},
    {SF_NAMES_COMMANDS, "report", " html page plot figures summary "},
    {SF_NAMES_COMMANDS, "serve", " ui web dashboard live watch board monitor "},
    {SF_NAMES_COMMANDS, "doctor", " diagnose info env environment system "},
    {SF_NAMES_COMMANDS, "export", " save dump download tensorboard csv "},
    {SF_NAMES_COMMANDS, "merge", " join combine import "},
    {SF_NAMES_COMMANDS, "check", " verify fsck validate "},
    {SF_NAMES_COMMANDS, "evaluate", " eval test predict "},
    {SF_NAMES_COMMANDS, "analyze", " analyse explain inspect why "},
    {SF_NAMES_COMMANDS, "bench", " benchmark speed time "},
    {SF_NAMES_SETTINGS, "lr", " learning-rate learningrate eta step-size alpha "},
    {SF_NAMES_SETTINGS, "epochs", " epoch num-epochs n-epochs max-epochs iterations passes "},
    {SF_NAMES_SETTINGS, "attention", " attn mechanism mechanisms attention-type att "},
    {SF_NAMES_SETTINGS, "batch", " batch-size batchsize bs minibatch "},
    {SF_NAMES_SETTINGS, "blocks", " layers layer depth num-layers n-layers n-layer num-blocks "},
    {SF_NAMES_SETTINGS, "width", " hidden hidden-size d-model dim embed-dim embedding-size n-embd dmodel "},
    {SF_NAMES_SETTINGS, "mlp-width", " ffn d-ff ffn-dim mlp-size feedforward intermediate-size "},
    {SF_NAMES_SETTINGS, "heads", " n-heads num-heads n-head nhead "},
    {SF_NAMES_SETTINGS, "length", " seq-len seqlen sequence-length context context-length block-size max-length "},
    {SF_NAMES_SETTINGS, "causal", " causal-mask autoregressive is-causal decoder masked "},
    {SF_NAMES_SETTINGS, "weight-decay", " wd l2 decay "},
    {SF_NAMES_SETTINGS, "clip", " clip-grad grad-clip gradient-clipping max-grad-norm "},
    {SF_NAMES_SETTINGS, "schedule", " scheduler lr-schedule lr-scheduler "},
    {SF_NAMES_SETTINGS, "optimizer", " optim optimiser opt "},
    {SF_NAMES_SETTINGS, "stop-at", " early-stop early-stopping target target-accuracy until "},
    {SF_NAMES_SETTINGS, "seed", " random-seed rng rng-seed "},
    {SF_NAMES_SETTINGS, "seeds", " n-seeds num-seeds repeats trials replicates "},
    {SF_NAMES_SETTINGS, "train-count", " train-size n-train samples-train training-size "},
    {SF_NAMES_SETTINGS, "heldout-count", " test-size n-test val-size valid-size eval-size validation-size "},
    {SF_NAMES_SETTINGS, "threads", " workers jobs cores num-workers n-jobs cpus "},
    {SF_NAMES_SETTINGS, "device", " gpu cuda accelerator "},
    {SF_NAMES_SETTINGS, "precision", " dtype bf16 fp16 amp mixed-precision "},
    {SF_NAMES_SETTINGS, "store", " db database dir folder output-dir save-dir workdir "},
    {SF_NAMES_SETTINGS, "out", " output output-file o file "},
    {SF_NAMES_SETTINGS, "tensorboard", " tb logdir log-dir "},
    {SF_NAMES_SETTINGS, "name", " title run-name experiment-name label "},
    {SF_NAMES_SETTINGS, "where", " filter query select only "},
    {SF_NAMES_SETTINGS, "quiet", " silent q "},
    {SF_NAMES_MECHANISMS, "banded", " sliding sliding-window local window windowed band swa neighbourhood longformer "},
    {SF_NAMES_MECHANISMS, "topk", " top-k top knn largest ksparse sparse "},
    {SF_NAMES_MECHANISMS, "bottomk", " bottom-k smallest "},
    {SF_NAMES_MECHANISMS, "topp", " top-p nucleus "},
    {SF_NAMES_MECHANISMS, "full",
     " dense standard vanilla softmax normal all regular dot-product sdpa flash flash-attention "},
    {SF_NAMES_MECHANISMS, "block", " chunk chunked blocked block-local blockwise "},
    {SF_NAMES_MECHANISMS, "strided", " stride dilated "},
    {SF_NAMES_MECHANISMS, "lsh", " reformer hash hashing "},
    {SF_NAMES_MECHANISMS, "random", " rand bigbird "},
    {SF_NAMES_MECHANISMS, "kmeans", " k-means clustered routing "},
    {SF_NAMES_TASKS, "parity", " xor "},
    {SF_NAMES_TASKS, "listops", " list-ops list-operations lra "},
};

enum { LONGEST_WORD = 48 };

const char *sf_synonym(sf_name_kind kind, const char *word) {
    char wanted[LONGEST_WORD + 3] = " ";
    const size_t length = strlen(word);
    if (length == 0 || length > LONGEST_WORD) return NULL;
    for (size_t i = 0; i < length; i++) wanted[1 + i] = (char)(word[i] == '_' ? '-' : tolower((unsigned char)word[i]));
    wanted[1 + length] = ' ';
    if (strchr(word, ' ') != NULL) return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind && strstr(table[i].words, wanted) != NULL) return table[i].meaning;
    return NULL;
}

static bool is_candidate(const char *name, const char *(*candidate)(const void *context, size_t i),
                         const void *context) {
    const char *known;
    for (size_t i = 0; (known = candidate(context, i)) != NULL; i++)
        if (strcmp(known, name) == 0) return true;
    return false;
}

const char *sf_suggest(sf_name_kind kind, const char *word, const char *(*candidate)(const void *context, size_t i),
                       const void *context) {
    const char *meaning = sf_synonym(kind, word);
    if (meaning != NULL && is_candidate(meaning, candidate, context)) return meaning;
    return sf_text_nearest(word, candidate, context);
}
