/*
 * batch - one allocation per array, made once; filling only writes.
 */
#include "data/batch.h"

#include <string.h>

#include "base/mem.h"
#include "data/records.h"

/* Sizes hold for the whole run, so nothing is allocated inside the step loop. The
 * target arrays have one entry more than C, so that they exist where C is 0. */
struct batch *batch_create(int32_t rows, int32_t row_tokens, int32_t target_capacity)
{
    ASSERT(rows > 0 && row_tokens > 0 && target_capacity >= 0);
    const size_t slots = (size_t)rows * (size_t)row_tokens;
    const size_t targets = (size_t)target_capacity + 1;
    ASSERT(slots <= INT32_MAX);
    struct batch *batch = mem_alloc(sizeof(*batch));
    batch->rows = rows;
    batch->row_tokens = row_tokens;
    batch->target_capacity = target_capacity;
    batch->ids = mem_alloc_array(slots, sizeof(int32_t));
    batch->position = mem_alloc_array(slots, sizeof(int32_t));
    batch->first_key = mem_alloc_array(slots, sizeof(int32_t));
    batch->loss_rows = mem_alloc_array(targets, sizeof(int32_t));
    batch->targets = mem_alloc_array(targets, sizeof(int32_t));
    batch->weight = mem_alloc_array(targets, sizeof(float));
    batch->target_example = mem_alloc_array(targets, sizeof(int32_t));
    batch->row_used = mem_alloc_array((size_t)rows, sizeof(int32_t));
    /* An example has at least one token, so there are no more of them than slots. */
    batch->source_rows = mem_alloc_array(slots, sizeof(int64_t));
    batch->sources = mem_alloc_array(slots, sizeof(int32_t));
    batch_clear(batch, 0);
    return batch;
}

void batch_destroy(struct batch *batch)
{
    if (batch == NULL) {
        return;
    }
    mem_free(batch->ids);
    mem_free(batch->position);
    mem_free(batch->first_key);
    mem_free(batch->loss_rows);
    mem_free(batch->targets);
    mem_free(batch->weight);
    mem_free(batch->target_example);
    mem_free(batch->row_used);
    mem_free(batch->source_rows);
    mem_free(batch->sources);
    mem_free(batch);
}

/* Padding sees no key: its first key is behind the row. Unused targets are valid ones
 * (slot 0, id 0) of weight 0: the loss head may compute them, and they add nothing. */
void batch_clear(struct batch *batch, int32_t pad_id)
{
    const int64_t slots = (int64_t)batch->rows * batch->row_tokens;
    for (int64_t i = 0; i < slots; i++) {
        batch->ids[i] = pad_id < 0 ? 0 : pad_id;
        batch->position[i] = 0;
        batch->first_key[i] = batch->row_tokens;
    }
    const size_t targets = (size_t)batch->target_capacity;
    memset(batch->loss_rows, 0, targets * sizeof(int32_t));
    memset(batch->targets, 0, targets * sizeof(int32_t));
    memset(batch->weight, 0, targets * sizeof(float));
    memset(batch->target_example, 0, targets * sizeof(int32_t));
    memset(batch->row_used, 0, (size_t)batch->rows * sizeof(int32_t));
    batch->n_targets = 0;
    batch->weight_sum = 0;
    batch->n_real_tokens = 0;
    batch->n_examples = 0;
}

/* Token at slot `at` of the batch is a target, so the slot before it carries loss. That
 * slot is in the same row, because the first token of a document never comes here. */
static void add_target(struct batch *batch, int32_t at, int32_t id, float weight)
{
    ASSERT(batch->n_targets < batch->target_capacity);
    batch->loss_rows[batch->n_targets] = at - 1;
    batch->targets[batch->n_targets] = id;
    batch->weight[batch->n_targets] = weight;
    batch->target_example[batch->n_targets] = batch->n_examples;
    batch->n_targets++;
    batch->weight_sum += (double)weight;
}

/* Documents of an example are counted off as the tokens go by. The first token of a
 * document is no target, whatever its weight: nothing in its document predicts it.
 * position[at] = i - document_from, so RoPE starts anew in each document; first_key[at]
 * = from + document_from, counted from the start of the row, so attention ends at the
 * document. */
void batch_add(struct batch *batch, int32_t row, const struct example *example)
{
    ASSERT(row >= 0 && row < batch->rows);
    const int32_t from = batch->row_used[row];
    ASSERT(example->n <= batch->row_tokens - from);
    int32_t document = -1;
    int32_t document_from = 0;
    for (int32_t i = 0; i < example->n; i++) {
        if (document + 1 < example->n_documents &&
            example->document_from[document + 1] == i) {
            document++;
            document_from = i;
        }
        const int32_t at = row * batch->row_tokens + from + i;
        batch->ids[at] = example->ids[i];
        batch->position[at] = i - document_from;
        batch->first_key[at] = from + document_from;
        if (example->loss_weight[i] > 0 && i > document_from) {
            add_target(batch, at, example->ids[i], example->loss_weight[i]);
        }
    }
    batch->row_used[row] += example->n;
    batch->n_real_tokens += example->n;
    batch->source_rows[batch->n_examples] = example->source_row;
    batch->sources[batch->n_examples++] = example->source;
}
