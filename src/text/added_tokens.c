/*
 * added_tokens - a trie whose children are linked lists.
 *
 * Most bytes of running text begin no added token: one look at root[] passes over them.
 */
#include "text/added_tokens.h"

#include "base/mem.h"

struct added_node {
    uint32_t first_child; /* 0 = none */
    uint32_t sibling;     /* next child of the same parent */
    int32_t id;           /* token that ends here, -1 = none */
    uint8_t byte;
};

void added_tokens_deinit(struct added_tokens *added)
{
    mem_free(added->nodes);
    *added = (struct added_tokens){0};
}

/* Appends a node without children; its index. The array may move. Nodes refer to each
 * other by index, not by address, for that reason; index 0 stays free, so that a zeroed
 * root[] means "no token begins with this byte". */
static uint32_t new_node(struct added_tokens *added, uint8_t byte)
{
    if (added->n_nodes == 0) {
        added->n_nodes = 1;
    }
    if (added->n_nodes >= added->capacity) {
        const size_t capacity = added->capacity == 0 ? 256 : 2 * added->capacity;
        added->nodes = mem_grow_array(added->nodes, added->capacity, capacity,
                                      sizeof(*added->nodes));
        added->capacity = capacity;
    }
    added->nodes[added->n_nodes] = (struct added_node){.byte = byte, .id = -1};
    return (uint32_t)added->n_nodes++;
}

/* The child of `node` for this byte, 0 = none. A walk over a list is enough here: only
 * text that already shares its first byte with an added token comes this far. */
static uint32_t find_child(const struct added_tokens *added, uint32_t node,
                           uint8_t byte)
{
    uint32_t child = added->nodes[node].first_child;
    while (child != 0 && added->nodes[child].byte != byte) {
        child = added->nodes[child].sibling;
    }
    return child;
}

/* Walks down along the bytes of the token and makes the nodes that are missing; a token
 * that is a prefix of another one ends in an inner node, which is why the id sits at
 * nodes and not at leaves. A text that is added again gets the new id. */
void added_tokens_add(struct added_tokens *added, const char *text, size_t length,
                      int32_t id)
{
    ASSERT(length > 0);
    const uint8_t first = (uint8_t)text[0];
    if (added->root[first] == 0) {
        added->root[first] = new_node(added, first);
    }
    uint32_t node = added->root[first];
    for (size_t i = 1; i < length; i++) {
        const uint8_t byte = (uint8_t)text[i];
        uint32_t child = find_child(added, node, byte);
        /* New children go to the front of the list: the order does not matter, as no
         * two siblings have the same byte. */
        if (child == 0) {
            child = new_node(added, byte);
            added->nodes[child].sibling = added->nodes[node].first_child;
            added->nodes[node].first_child = child;
        }
        node = child;
    }
    added->nodes[node].id = id;
    added->n_tokens++;
}

/* From each place that may begin a token, down the trie as far as the text goes; the
 * last end that was passed is the longest match. */
size_t added_tokens_find(const struct added_tokens *added, const char *text,
                         size_t length, size_t from, int32_t *id, size_t *match_length)
{
    for (size_t at = from; at < length; at++) {
        uint32_t node = added->root[(uint8_t)text[at]];
        size_t end = at + 1;
        *match_length = 0;
        while (node != 0) {
            if (added->nodes[node].id >= 0) {
                *id = added->nodes[node].id;
                *match_length = end - at;
            }
            node = end < length ? find_child(added, node, (uint8_t)text[end]) : 0;
            end++;
        }
        if (*match_length > 0) {
            return at;
        }
    }
    return length;
}
