/*
 * token_list - two growing arrays behind one count.
 */
#include "text/token_list.h"

#include "base/mem.h"

void token_list_deinit(struct token_list *list)
{
    mem_free(list->ids);
    mem_free(list->starts);
    *list = (struct token_list){0};
}

/* The arrays stay: lists are reused from row to row. */
void token_list_clear(struct token_list *list)
{
    list->n = 0;
}

/* Doubles both arrays, which keeps the cost per token constant. */
static void grow(struct token_list *list)
{
    const size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
    list->ids = mem_grow_array(list->ids, list->capacity, capacity, sizeof(*list->ids));
    list->starts =
        mem_grow_array(list->starts, list->capacity, capacity, sizeof(*list->starts));
    list->capacity = capacity;
}

void token_list_add(struct token_list *list, int32_t id, uint32_t start)
{
    if (list->n == list->capacity) {
        grow(list);
    }
    list->ids[list->n] = id;
    list->starts[list->n] = start;
    list->n++;
}
