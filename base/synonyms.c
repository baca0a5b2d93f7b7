/* Names that people know from elsewhere, for the suggestion in a message: none of them is accepted. */
#include "semfocus/suggest.h"

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
    {SF_NAMES_COMMANDS, "report", " html page plot figures summary stats statistics results "},
    {SF_NAMES_COMMANDS, "--version", " version -v -V v "},
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
    {SF_NAMES_SETTINGS, "attention",
     " attn mechanism mechanisms attention-type att positional positional-encoding position-encoding pos-encoding "
     "pos-embedding positional-embedding rope alibi "},
    {SF_NAMES_SETTINGS, "batch", " batch-size batchsize bs minibatch "},
    {SF_NAMES_SETTINGS, "blocks", " layers layer depth num-layers n-layers n-layer num-blocks "},
    {SF_NAMES_SETTINGS, "width", " hidden hidden-size d-model dim embed-dim embedding-size n-embd dmodel "},
    {SF_NAMES_SETTINGS, "mlp-width", " ffn d-ff ffn-dim mlp-size feedforward intermediate-size "},
    {SF_NAMES_SETTINGS, "heads", " n-heads num-heads n-head nhead "},
    {SF_NAMES_SETTINGS, "length",
     " seq-len seqlen sequence-length context context-length block-size max-length max-len maxlen max-seq-len "
     "max-sequence-length seq-length n-ctx "},
    {SF_NAMES_SETTINGS, "causal", " causal-mask autoregressive is-causal decoder masked "},
    {SF_NAMES_SETTINGS, "weight-decay", " wd l2 decay "},
    {SF_NAMES_SETTINGS, "clip", " clip-grad grad-clip gradient-clipping max-grad-norm "},
    {SF_NAMES_SETTINGS, "schedule", " scheduler lr-schedule lr-scheduler "},
    {SF_NAMES_SETTINGS, "gamma", " lr-decay lr-gamma decay-rate learning-rate-decay "},
    {SF_NAMES_SETTINGS, "warmup", " warmup-epochs warm-up warm-up-epochs "},
    {SF_NAMES_SETTINGS, "warmup-steps", " num-warmup-steps n-warmup-steps warmup-iters warm-up-steps "},
    {SF_NAMES_SETTINGS, "vocab", " vocab-size vocabulary vocabulary-size n-vocab num-tokens "},
    {SF_NAMES_SETTINGS, "evaluate-count", " eval-every evaluate-every eval-interval eval-count eval-freq "},
    {SF_NAMES_SETTINGS, "optimizer", " optim optimiser opt "},
    {SF_NAMES_SETTINGS, "stop-at", " early-stop early-stopping target target-accuracy until "},
    {SF_NAMES_SETTINGS, "seed", " random-seed rng rng-seed "},
    {SF_NAMES_SETTINGS, "seeds", " n-seeds num-seeds repeats trials replicates "},
    {SF_NAMES_SETTINGS, "train-count", " train-size n-train samples-train training-size "},
    {SF_NAMES_SETTINGS, "heldout-count",
     " test-size n-test val-size valid-size eval-size validation-size test-count n-val val-count eval-samples "
     "validation-count held-out-count "},
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
    {SF_NAMES_MECHANISMS, "global", " global-tokens cls "},
    {SF_NAMES_MECHANISMS, "sink", " attention-sink sinks streaming streamingllm streaming-llm "},
    {SF_NAMES_MECHANISMS, "window", " banded sliding sliding-window local windowed swa "},
    {SF_NAMES_MECHANISMS, "softmax1", " off-by-one quiet quiet-softmax softmax-one "},
    {SF_NAMES_MECHANISMS, "sigmoid", " logistic "},
    {SF_NAMES_MECHANISMS, "entmax15", " entmax-15 entmax1.5 "},
    {SF_NAMES_MECHANISMS, "doubly", " sinkhorn doubly-stochastic "},
    {SF_NAMES_MECHANISMS, "rope", " rotary rotary-embedding roformer rotary-position rotary-positional "},
    {SF_NAMES_MECHANISMS, "alibi", " linear-bias linear-biases relative relative-bias "},
    {SF_NAMES_MECHANISMS, "qknorm", " qk-norm qk-normalization query-key-norm cosine "},
    {SF_NAMES_MECHANISMS, "softcap", " soft-cap logit-cap logit-softcap capping tanh "},
    {SF_NAMES_MECHANISMS, "logn", " log-n log-length scaled "},
    {SF_NAMES_TASKS, "parity", " xor "},
    {SF_NAMES_TASKS, "even-pairs", " pairs "},
    {SF_NAMES_TASKS, "missing-duplicate", " missing "},
    {SF_NAMES_TASKS, "cycle-navigation", " cycle navigation ring "},
    {SF_NAMES_TASKS, "modular-arithmetic", " arithmetic mod modular modular-arithmetic-simple "},
    {SF_NAMES_TASKS, "modular-arithmetic-brackets", " brackets "},
    {SF_NAMES_TASKS, "solve-equation", " equation equations "},
    {SF_NAMES_TASKS, "stack-manipulation", " stack "},
    {SF_NAMES_TASKS, "recall", " mqar associative-recall multi-query-associative-recall key-value induction "},
    {SF_NAMES_TASKS, "noisy-recall", " noisy-mqar fuzzy-recall noisy-associative-recall "},
    {SF_NAMES_TASKS, "flip-flop", " ffl fflm flip-flop-language "},
    {SF_NAMES_TASKS, "word-problem", " s5 a5 group permutations permutation state-tracking "},
    {SF_NAMES_TASKS, "reverse-string", " reverse reversal reversed "},
    {SF_NAMES_TASKS, "duplicate-string", " copy copying copy-string duplicate repeat "},
    {SF_NAMES_TASKS, "odds-first", " odds "},
    {SF_NAMES_TASKS, "bucket-sort", " sort sorting sorted "},
    {SF_NAMES_TASKS, "binary-addition", " addition add adding sum plus adder "},
    {SF_NAMES_TASKS, "binary-multiplication", " multiplication multiply multiplying product times mul "},
    {SF_NAMES_TASKS, "compute-sqrt", " sqrt square-root root "},
    {SF_NAMES_TASKS, "listops", " list-ops list-operations lra listop nested-lists "},
};

enum { LONGEST_WORD = 48 };

/* As the table has them: in small letters, with - for _, with a blank before and after. */
static bool spell(char out[LONGEST_WORD + 3], const char *word) {
    const size_t length = strlen(word);
    if (length == 0 || length > LONGEST_WORD || strchr(word, ' ') != NULL) return false;
    out[0] = ' ';
    for (size_t i = 0; i < length; i++) out[1 + i] = (char)(word[i] == '_' ? '-' : tolower((unsigned char)word[i]));
    strcpy(out + 1 + length, " ");
    return true;
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
    char wanted[LONGEST_WORD + 3];
    const bool is_word = spell(wanted, word);
    for (size_t i = 0; is_word && i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind && strstr(table[i].words, wanted) != NULL &&
            is_candidate(table[i].meaning, candidate, context))
            return table[i].meaning;
    return sf_text_nearest(word, candidate, context);
}
