/*
 * token_list - a growing list of token ids and where each began in the text.
 *
 *     struct token_list list = {0};
 *     tokenizer_encode(tokenizer, text, length, true, &list);
 *     ...
 *     token_list_deinit(&list);
 */
#ifndef TEXT_TOKEN_LIST_H
#define TEXT_TOKEN_LIST_H

#include "base/base.h"

struct token_list {
    int32_t *ids;     /* [n] */
    uint32_t *starts; /* [n] byte of the encoded text where the token begins */
    size_t n;
    size_t capacity;
};

void token_list_deinit(struct token_list *list); /* leaves an empty list */
void token_list_clear(struct token_list *list);  /* keeps the memory */
void token_list_add(struct token_list *list, int32_t id, uint32_t start);

#endif
