/*
 * row - the arrays, and two ways to fill them; row_chat.c has the third.
 */
#include "data/row.h"

#include "base/error.h"
#include "base/mem.h"
#include "text/tokenizer.h"

void row_deinit(struct row *row)
{
    token_list_deinit(&row->tokens);
    mem_free(row->weight);
    mem_free(row->document_from);
    *row = (struct row){0};
}

/* weight[] and document_from[] are governed by n and n_documents and stay as they
 * are. */
void row_clear(struct row *row)
{
    token_list_clear(&row->tokens);
    row->n = 0;
    row->n_documents = 0;
    row->has_lost_thought = false;
    row->fault_field = NULL;
}

/* Tokens may come in one go and their weights afterwards, so n follows the weights. */
void row_weigh(struct row *row, float weight)
{
    row->weight = mem_reserve_one(row->weight, row->n, &row->weight_capacity,
                                  sizeof(*row->weight));
    row->weight[row->n++] = weight;
}

/* The start of the token is not used in rows. */
void row_add(struct row *row, int32_t id, float weight)
{
    token_list_add(&row->tokens, id, 0);
    row_weigh(row, weight);
}

/* Twice at one place, as for a document without tokens, cannot happen: callers add a
 * token in between. */
void row_begin_document(struct row *row)
{
    row->document_from =
        mem_reserve_one(row->document_from, row->n_documents, &row->documents_capacity,
                        sizeof(*row->document_from));
    row->document_from[row->n_documents++] = (int32_t)row->n;
}

/* Documents that begin beyond the cut go with their tokens. */
int32_t row_finish(struct row *row, size_t n)
{
    ASSERT(n <= row->n && n <= INT32_MAX);
    row->n = n;
    while (row->n_documents > 0 &&
           (size_t)row->document_from[row->n_documents - 1] >= n) {
        row->n_documents--;
    }
    for (size_t i = 0; i < row->n_documents; i++) {
        row->weight[row->document_from[i]] = 0;
    }
    int32_t n_targets = 0;
    for (size_t i = 0; i < n; i++) {
        n_targets += row->weight[i] > 0;
    }
    return n_targets;
}

/* --- fields ----------------------------------------------------------------------- */

bool row_says_nothing(const json_t *value)
{
    return value == NULL || json_is_null(value) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* Sums of losses stay finite with any weight that is taken. */
bool row_read_weight(const json_t *value, float *weight, struct error *err)
{
    static const double most = 1.0e6;
    *weight = 1.0F;
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    const double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0 && number <= most)) { /* also NaN */
        return error_set(err, ERROR_DATA, "weight: expected a number from 0 to %g",
                         most);
    }
    *weight = (float)number;
    return true;
}

/* --- text ------------------------------------------------------------------------- */

/* Exactly one BOS, and that one in front (C11). Token 0 is ours or takes the place of
 * ours. A second one would tell the model that another document begins, which only
 * position_ids may say. */
static bool check_bos(const struct row *row, int32_t bos, struct error *err)
{
    for (size_t i = 1; bos >= 0 && i < row->tokens.n; i++) {
        if (row->tokens.ids[i] == bos) {
            return error_set(err, ERROR_DATA,
                             "the text holds the BOS token again, as token %zu", i);
        }
    }
    return true;
}

/* The ids are encoded behind BOS and in place; a BOS that the text itself begins with
 * takes the place of ours. A token ends where the next one starts, so one on the border
 * counts as response if it reaches beyond it. end > border says "holds a byte of the
 * response": the token covers bytes [start, end). */
bool row_from_text(struct row *row, const struct tokenizer *tokenizer, const char *text,
                   size_t length, size_t border, bool has_loss_on_all,
                   bool ends_with_eos, struct error *err)
{
    const int32_t bos = tokenizer_bos(tokenizer);
    const int32_t eos = tokenizer_eos(tokenizer);
    struct token_list *tokens = &row->tokens;
    if (length > TOKENIZER_MAX_BYTES) {
        return error_set(err, ERROR_DATA,
                         "a text of %zu bytes is too long (%d at most)", length,
                         TOKENIZER_MAX_BYTES);
    }
    row_begin_document(row);
    if (tokenizer_adds_bos(tokenizer)) {
        token_list_add(tokens, bos, 0);
    }
    tokenizer_encode(tokenizer, text, length, false, tokens);
    if (tokens->n > 1 && tokenizer_adds_bos(tokenizer) && tokens->ids[1] == bos) {
        for (size_t i = 1; i < tokens->n; i++) {
            tokens->ids[i - 1] = tokens->ids[i];
            tokens->starts[i - 1] = tokens->starts[i];
        }
        tokens->n--;
    }
    for (size_t i = 0; i < tokens->n; i++) {
        const size_t end = i + 1 < tokens->n ? tokens->starts[i + 1] : length;
        row_weigh(row, has_loss_on_all || end > border ? 1.0F : 0.0F);
    }
    if (ends_with_eos) {
        if (eos < 0) {
            return error_set(err, ERROR_USAGE,
                             "data.end is eos, but the tokenizer has no EOS token");
        }
        if (tokens->n == 0 || tokens->ids[tokens->n - 1] != eos) {
            row_add(row, eos, 1.0F);
        }
    }
    return check_bos(row, bos, err);
}

/* --- tokens ----------------------------------------------------------------------- */

/* The member as an array of n elements; *is_there says whether there is one. null
 * counts as absent, as many writers of such rows put it there. */
static bool find_array(struct row *row, const json_t *object, const char *key, size_t n,
                       const json_t **array, struct error *err)
{
    *array = json_object_get(object, key);
    if (*array == NULL || json_is_null(*array)) {
        *array = NULL;
        return true;
    }
    if (!json_is_array(*array) || json_array_size(*array) != n) {
        row->fault_field = key;
        return error_set(err, ERROR_DATA,
                         "%s: expected an array of %zu integers, as many as input_ids",
                         key, n);
    }
    return true;
}

/* Element i of an array, an integer of min .. max. Ranges are checked in 64 bits before
 * anything is narrowed. */
static bool element(struct row *row, const json_t *array, size_t i, const char *key,
                    int64_t min, int64_t max, int64_t *value, struct error *err)
{
    const json_t *item = json_array_get(array, i);
    row->fault_field = key; /* for as long as this is not known to be right */
    if (!json_is_integer(item)) {
        return error_set(err, ERROR_DATA, "%s[%zu] is not an integer", key, i);
    }
    *value = json_integer_value(item);
    if (*value < min || *value > max) {
        return error_set(err, ERROR_DATA, "%s[%zu] is %lld, expected %lld to %lld", key,
                         i, (long long)*value, (long long)min, (long long)max);
    }
    row->fault_field = NULL;
    return true;
}

/* The members of a token row; NULL where one is not given. */
struct token_arrays {
    const json_t *ids;
    const json_t *labels;
    const json_t *positions;
    const json_t *mask;
    int64_t max_id;
    float weight;
    int64_t position_before; /* of the last token kept, -1 = none yet */
};

/* Finds the members and checks their lengths. A weight of 0 is allowed and makes the row
 * carry no loss. */
static bool find_arrays(struct row *row, const json_t *object,
                        struct token_arrays *arrays, struct error *err)
{
    arrays->ids = json_object_get(object, "input_ids");
    if (!json_is_array(arrays->ids)) {
        row->fault_field = arrays->ids == NULL ? NULL : "input_ids";
        return error_set(err, ERROR_DATA, "input_ids: expected an array of integers");
    }
    const size_t n = json_array_size(arrays->ids);
    if (!row_read_weight(json_object_get(object, "weight"), &arrays->weight, err)) {
        row->fault_field = "weight";
        return false;
    }
    return find_array(row, object, "labels", n, &arrays->labels, err) &&
           find_array(row, object, "position_ids", n, &arrays->positions, err) &&
           find_array(row, object, "attention_mask", n, &arrays->mask, err);
}

/* Begins a document where the positions say so. Only their restarts matter: attention
 * and RoPE see differences of positions within a document. Positions are compared with
 * those of the last token that was kept, so padding inside a row does not break a
 * document. */
static bool take_position(struct row *row, struct token_arrays *arrays, size_t i,
                          struct error *err)
{
    int64_t position = arrays->position_before + 1;
    if (arrays->positions != NULL && !element(row, arrays->positions, i, "position_ids",
                                              0, INT32_MAX, &position, err)) {
        return false;
    }
    if (row->n == 0 || position <= arrays->position_before) {
        row_begin_document(row);
    } else if (position != arrays->position_before + 1) {
        row->fault_field = "position_ids";
        return error_set(
            err, ERROR_DATA,
            "position_ids[%zu] is %lld after %lld: expected one more, or a "
            "restart where a document begins",
            i, (long long)position, (long long)arrays->position_before);
    }
    arrays->position_before = position;
    return true;
}

/* One element of each array; padding leaves no trace. The mask decides first: what a
 * row says about a padded token is not looked at, apart from being in range. Labels are
 * those of the token itself, not of the next one; batch.c does the shift. */
static bool take_token(struct row *row, struct token_arrays *arrays, size_t i,
                       struct error *err)
{
    int64_t id = 0;
    int64_t label;
    int64_t mask = 1;
    if (!element(row, arrays->ids, i, "input_ids", 0, arrays->max_id, &id, err)) {
        return false;
    }
    label = id;
    if ((arrays->labels != NULL && !element(row, arrays->labels, i, "labels", -100,
                                            arrays->max_id, &label, err)) ||
        (arrays->mask != NULL &&
         !element(row, arrays->mask, i, "attention_mask", 0, 1, &mask, err))) {
        return false;
    }
    if (mask == 0) {
        return true;
    }
    if (label != -100 && label != id) {
        row->fault_field = "labels";
        return error_set(err, ERROR_DATA,
                         "labels[%zu] is %lld: expected -100 or input_ids[%zu], %lld "
                         "(labels are not shifted)",
                         i, (long long)label, i, (long long)id);
    }
    if (!take_position(row, arrays, i, err)) {
        return false;
    }
    row_add(row, (int32_t)id, label == -100 ? 0.0F : arrays->weight);
    return true;
}

/* position_before = -1 lets the first document start at 0 without being a restart. */
bool row_from_tokens(struct row *row, const json_t *object, int32_t n_vocabulary,
                     struct error *err)
{
    struct token_arrays arrays = {
        .max_id = n_vocabulary == 0 ? INT32_MAX : n_vocabulary - 1,
        .position_before = -1,
    };
    if (!find_arrays(row, object, &arrays, err)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(arrays.ids); i++) {
        if (!take_token(row, &arrays, i, err)) {
            return false;
        }
    }
    return true;
}
