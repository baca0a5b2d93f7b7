/* SentencePiece through a C interface: the only C++ of the library. No exception leaves this file. */
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "semfocus/status.h" /* a header for both languages, unlike the next */
extern "C" {
#include "io/sentencepiece.h"
}

struct sf_pieces {
    sentencepiece::SentencePieceProcessor processor;
};

namespace {

/* What a model is trained on at most: evenly spaced lines of the text. More changes little and takes memory that is
 * many times the size of the text. */
constexpr size_t most_bytes = size_t{32} << 20;

class lines_of_text : public sentencepiece::SentenceIterator {
  public:
    lines_of_text(const char *text, size_t size) : at(text), end(text + size), step(1 + size / most_bytes) {
        take();
    }
    bool done() const override {
        return at == nullptr;
    }
    void Next() override {
        for (size_t i = 0; i < step && at != nullptr; i++) skip();
        take();
    }
    const std::string &value() const override {
        return line;
    }
    sentencepiece::util::Status status() const override {
        return {};
    }

  private:
    const char *line_end() const {
        const void *newline = std::memchr(at, '\n', static_cast<size_t>(end - at));
        return newline != nullptr ? static_cast<const char *>(newline) : end;
    }
    void skip() {
        const char *stop = line_end();
        at = stop == end ? nullptr : stop + 1;
    }
    void take() {
        if (at == end) at = nullptr;
        if (at != nullptr) line.assign(at, line_end());
    }
    const char *at, *end;
    size_t step;
    std::string line;
};

/* "INTERNAL: file.cc(12) [condition] sentence" or the like: the sentence. */
std::string sentence_of(const sentencepiece::util::Status &status) {
    const std::string message = status.ToString();
    const size_t start = message.rfind("] ");
    std::string sentence = start == std::string::npos ? message : message.substr(start + 2);
    while (!sentence.empty() && (sentence.back() == '.' || sentence.back() == ' ')) sentence.pop_back();
    return sentence.empty() ? message : sentence;
}

template <typename work> sf_status guarded(const work &todo) {
    try {
        return todo();
    } catch (const std::bad_alloc &) {
        return sf_fail(SF_NO_MEMORY, "SentencePiece ran out of memory");
    } catch (...) {
        return sf_fail(SF_BAD_INPUT, "SentencePiece failed without a reason");
    }
}

} // namespace

extern "C" {

sf_status sf_pieces_train(sf_bytes *file, const char *type, size_t vocab, const char *text, size_t size) {
    return guarded([&] {
        lines_of_text lines(text, size);
        std::string model;
        /* One thread and one seed: threads would change the order of sums, and with it the model. */
        sentencepiece::SetRandomGeneratorSeed(0);
        const auto status = sentencepiece::SentencePieceTrainer::Train(
            {{"model_type", type}, {"vocab_size", std::to_string(vocab)}, {"num_threads", "1"}, {"minloglevel", "2"}},
            &lines, &model);
        if (!status.ok())
            return sf_fail(SF_BAD_INPUT, "SentencePiece cannot make %zu pieces of this text: %s", vocab,
                           sentence_of(status).c_str());
        return sf_bytes_add(file, model.data(), model.size());
    });
}

sf_status sf_pieces_open(sf_pieces **out, const char *file, size_t size) {
    *out = nullptr;
    return guarded([&] {
        sf_pieces *pieces = new sf_pieces;
        const auto status = pieces->processor.LoadFromSerializedProto({file, size});
        if (status.ok() && pieces->processor.GetPieceSize() > 0) {
            *out = pieces;
            return SF_OK;
        }
        delete pieces;
        return sf_fail(SF_BAD_INPUT, "it is neither a tokenizer of semfocus nor a SentencePiece model");
    });
}

void sf_pieces_close(sf_pieces *pieces) {
    delete pieces;
}

size_t sf_pieces_count(const sf_pieces *pieces) {
    return static_cast<size_t>(pieces->processor.GetPieceSize());
}

int32_t sf_pieces_end(const sf_pieces *pieces) {
    return pieces->processor.eos_id();
}

sf_status sf_pieces_encode(sf_ids *ids, const sf_pieces *pieces, const char *text, size_t size) {
    return guarded([&] {
        std::vector<int> found;
        const auto status = pieces->processor.Encode({text, size}, &found);
        if (!status.ok()) return sf_fail(SF_BAD_INPUT, "SentencePiece: %s", sentence_of(status).c_str());
        for (const int id : found) SF_TRY(sf_ids_add(ids, id));
        return SF_OK;
    });
}

sf_status sf_pieces_decode(sf_bytes *text, const sf_pieces *pieces, const int32_t *ids, size_t count) {
    return guarded([&] {
        std::string found;
        const auto status = pieces->processor.Decode(std::vector<int>(ids, ids + count), &found);
        if (!status.ok()) return sf_fail(SF_BAD_INPUT, "SentencePiece: %s", sentence_of(status).c_str());
        return sf_bytes_add(text, found.data(), found.size());
    });
}
}
