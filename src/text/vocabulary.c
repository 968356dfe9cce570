/*
 * vocabulary - a hash table over one block of texts.
 *
 * A slot keeps 32 bits of the hash, so a probe reads the text only when it is almost
 * surely the right one, and the id and length stand right before the text: two cache
 * misses for a hit, one for a miss. That is what encoding and loading mostly wait for.
 */
#include "text/vocabulary.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

/* What stands before each text in the block. */
struct vocabulary_record {
    int32_t id;
    uint32_t length; /* of the text that follows, without the NUL */
};

void vocabulary_deinit(struct vocabulary *vocabulary)
{
    mem_free(vocabulary->texts);
    mem_free(vocabulary->records);
    mem_free(vocabulary->flags);
    mem_free(vocabulary->slots);
    *vocabulary = (struct vocabulary){0};
}

/* Spreads every bit over the word, as in the finishers of common hash functions. */
static uint64_t mix(uint64_t a)
{
    a ^= a >> 32;
    a *= 0x9e3779b97f4a7c15u;
    a ^= a >> 29;
    return a;
}

/* Eight bytes at a time; the rest, up to seven, is read as two overlapping words, so
 * that nothing beyond the text is touched. Depends on the machine's byte order, which
 * does not matter, as no hash is ever stored. */
static uint32_t hash_text(const char *text, size_t length)
{
    uint64_t hash = 0x243f6a8885a308d3u ^ length;
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = mix(hash ^ word) * 0xd6e8feb86659fd93u;
        text += 8;
        length -= 8;
    }
    uint64_t word = 0;
    if (length >= 4) {
        uint32_t head;
        uint32_t tail;
        memcpy(&head, text, 4);
        memcpy(&tail, text + length - 4, 4);
        word = (uint64_t)head << 32 | tail;
    } else if (length > 0) {
        const uint8_t first = (uint8_t)text[0];
        const uint8_t middle = (uint8_t)text[length / 2];
        const uint8_t last = (uint8_t)text[length - 1];
        word = (uint64_t)first << 16 | (uint64_t)middle << 8 | last;
    }
    hash = mix(hash ^ word) * 0xd6e8feb86659fd93u;
    return (uint32_t)(hash >> 32);
}

/* The record at this offset; records are not aligned. */
static struct vocabulary_record read_record(const struct vocabulary *vocabulary,
                                            uint32_t offset)
{
    struct vocabulary_record record;
    memcpy(&record, vocabulary->texts + offset, sizeof(record));
    return record;
}

/* The slot that holds the text (its id in *id), or the empty one where it would go.
 * Linear probing; ends, as at least half of the slots are empty. */
static size_t find_slot(const struct vocabulary *vocabulary, const char *text,
                        size_t length, uint32_t hash, int32_t *id)
{
    const size_t mask = vocabulary->n_slots - 1;
    size_t i = hash & mask;
    *id = -1;
    for (;;) {
        const struct vocabulary_slot slot = vocabulary->slots[i];
        if (slot.record == 0) {
            return i;
        }
        if (slot.hash == hash) {
            const struct vocabulary_record record =
                read_record(vocabulary, slot.record);
            const char *own = vocabulary->texts + slot.record + sizeof(record);
            if (record.length == length && memcmp(own, text, length) == 0) {
                *id = record.id;
                return i;
            }
        }
        i = (i + 1) & mask;
    }
}

static void grow_slots(struct vocabulary *vocabulary)
{
    const size_t n_old = vocabulary->n_slots;
    struct vocabulary_slot *old = vocabulary->slots;
    vocabulary->n_slots = n_old == 0 ? 1024 : 2 * n_old;
    vocabulary->slots = mem_alloc_array(vocabulary->n_slots, sizeof(*old));
    const size_t mask = vocabulary->n_slots - 1;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].record != 0) {
            size_t to = old[i].hash & mask;
            while (vocabulary->slots[to].record != 0) {
                to = (to + 1) & mask;
            }
            vocabulary->slots[to] = old[i];
        }
    }
    mem_free(old);
}

/* Room for this id; ids skipped on the way are not in use. Ids may come in any order
 * (an object of JSON has none), so this fills up to the highest one so far;
 * VOCABULARY_MAX_TOKENS bounds what one stray id can cost. */
static void grow_ids(struct vocabulary *vocabulary, size_t id)
{
    if (id >= vocabulary->ids_capacity) {
        const size_t old = vocabulary->ids_capacity;
        size_t capacity = old == 0 ? 1024 : 2 * old;
        while (capacity <= id) {
            capacity *= 2;
        }
        vocabulary->records = mem_grow_array(vocabulary->records, old, capacity,
                                             sizeof(*vocabulary->records));
        vocabulary->flags = mem_grow_array(vocabulary->flags, old, capacity, 1);
        vocabulary->ids_capacity = capacity;
    }
    while (vocabulary->n_ids <= id) {
        vocabulary->records[vocabulary->n_ids] = 0;
        vocabulary->flags[vocabulary->n_ids] = 0;
        vocabulary->n_ids++;
    }
}

/* Appends a record to the block; its offset, or 0 where that would outgrow 32 bits.
 * Offsets of 32 bits halve the slots; 0 is never an offset, so that it can mean "none"
 * in slots and records. */
static uint32_t add_record(struct vocabulary *vocabulary, int32_t id, const char *text,
                           size_t length)
{
    const struct vocabulary_record record = {.id = id, .length = (uint32_t)length};
    const size_t from = vocabulary->texts_length == 0 ? 1 : vocabulary->texts_length;
    const size_t end = from + sizeof(record) + length + 1;
    if (length > INT32_MAX || end > UINT32_MAX) {
        return 0;
    }
    if (end > vocabulary->texts_capacity) {
        const size_t capacity = 2 * end + 4096;
        vocabulary->texts =
            mem_grow_array(vocabulary->texts, vocabulary->texts_capacity, capacity, 1);
        vocabulary->texts_capacity = capacity;
    }
    char *at = vocabulary->texts + from;
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), text, length);
    at[sizeof(record) + length] = '\0';
    vocabulary->texts_length = end;
    return (uint32_t)from;
}

/* Two tokens of one text would make encoding depend on which of them is found, hence
 * the error. Nothing is undone on failure: the caller gives the whole vocabulary up. */
bool vocabulary_add(struct vocabulary *vocabulary, int64_t id, const char *text,
                    size_t length, uint8_t flags, struct error *err)
{
    if (id < 0 || id >= VOCABULARY_MAX_TOKENS) {
        return error_set(err, ERROR_DATA, "token id %lld is not in 0 .. %d",
                         (long long)id, VOCABULARY_MAX_TOKENS - 1);
    }
    if (length == 0) {
        return error_set(err, ERROR_DATA, "token %lld has no text", (long long)id);
    }
    /* The table first, since find_slot needs it to have an empty slot. */
    if (2 * (vocabulary->n_tokens + 1) > vocabulary->n_slots) {
        grow_slots(vocabulary);
    }
    grow_ids(vocabulary, (size_t)id);
    if (vocabulary->records[id] != 0) {
        return error_set(err, ERROR_DATA, "token id %lld is given twice",
                         (long long)id);
    }
    const uint32_t hash = hash_text(text, length);
    int32_t known;
    const size_t slot = find_slot(vocabulary, text, length, hash, &known);
    if (known >= 0) {
        return error_set(err, ERROR_DATA,
                         "tokens %d and %lld have the same text \"%.*s\"", known,
                         (long long)id, (int)base_min((int64_t)length, 60), text);
    }
    const uint32_t record = add_record(vocabulary, (int32_t)id, text, length);
    if (record == 0) {
        return error_set(err, ERROR_DATA, "token texts take more than 4 GiB");
    }
    vocabulary->records[id] = record;
    vocabulary->flags[id] = flags;
    vocabulary->slots[slot] = (struct vocabulary_slot){.hash = hash, .record = record};
    vocabulary->n_tokens++;
    vocabulary->max_length =
        (uint32_t)base_max(vocabulary->max_length, (int64_t)length);
    return true;
}

/* The look at max_length spares hashing long pieces, and guards the empty table, which
 * has no slot. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text,
                        size_t length)
{
    if (length == 0 || length > vocabulary->max_length) {
        return -1;
    }
    int32_t id;
    (void)find_slot(vocabulary, text, length, hash_text(text, length), &id);
    return id;
}

/* Added tokens share the table but are matched before merging and must not come out of
 * it. */
int32_t vocabulary_find_model(const struct vocabulary *vocabulary, const char *text,
                              size_t length)
{
    const int32_t id = vocabulary_find(vocabulary, text, length);
    return id >= 0 && (vocabulary->flags[id] & VOCABULARY_MODEL) != 0 ? id : -1;
}

/* An id of 64 bits, so that callers may pass numbers from files unchecked. */
const char *vocabulary_text(const struct vocabulary *vocabulary, int64_t id,
                            size_t *length)
{
    *length = 0;
    if (id < 0 || (uint64_t)id >= vocabulary->n_ids || vocabulary->records[id] == 0) {
        return NULL;
    }
    const uint32_t offset = vocabulary->records[id];
    *length = read_record(vocabulary, offset).length;
    return vocabulary->texts + offset + sizeof(struct vocabulary_record);
}

/* The spelling of sentencepiece, with capital hex digits; vocabulary_is_byte takes
 * small ones as well. */
int32_t vocabulary_find_byte(const struct vocabulary *vocabulary, uint8_t byte)
{
    char text[8];
    const int length = snprintf(text, sizeof(text), "<0x%02X>", byte);
    return vocabulary_find_model(vocabulary, text, (size_t)length);
}

/* Exactly six characters: "<0x", two digits, ">". */
bool vocabulary_is_byte(const char *text, size_t length, uint8_t *byte)
{
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') {
        return false;
    }
    const int high = str_hex_digit(text[3]);
    const int low = str_hex_digit(text[4]);
    if (high < 0 || low < 0) {
        return false;
    }
    *byte = (uint8_t)(high * 16 + low);
    return true;
}
