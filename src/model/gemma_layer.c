/*
 * gemma_layer - one decoder layer:
 *
 *     h += norm(attention(norm(h)))
 *     h += norm(down(gelu(gate(f)) * up(f))),  f = norm(h)
 *     h += norm(out(gelu(ple_gate(h)) * ple))       (per-layer embeddings)
 *     h *= layer_scalar                             (Gemma 4)
 *
 * A weight W with an adapter is used as W + scale * B A, without ever making the sum:
 *
 *     y = x W^T + (scale * dropout(x) A^T) B^T
 *
 * two thin products beside the one that is there anyway. Adapters are plain ops, so
 * their gradients, their placement and recomputation are those of any other product.
 */
#include "model/gemma_layer.h"

#include "base/random.h"
#include "graph/build.h"

/* The weight is [last dimension of x]; it is gathered here, where it is used. Norms are
 * computed in f32 also in bf16, so the weight need not be rounded for that. */
struct value *gemma_layer_norm(struct graph *graph, const struct model_config *config,
                               struct value *x, struct value *weight,
                               enum dtype compute)
{
    const enum dtype math = compute == DTYPE_BF16 ? DTYPE_F32 : compute;
    struct value *used = weight == NULL ? NULL : build_use_param(graph, weight, math);
    return build_rms_norm(graph, x, used, config->rms_eps,
                          weight != NULL && config->norm_adds_one);
}

/* The scope names its nodes after the tensor. */
static struct value *norm(struct graph *graph, const struct gemma_layer *layer,
                          struct value *x, enum param_role weight)
{
    const char *outer = graph_push_scope(graph, params_role_name(weight));
    struct value *y = gemma_layer_norm(graph, layer->config, x, layer->params[weight],
                                       layer->compute);
    graph_pop_scope(graph, outer);
    return y;
}

/*
 * x with a share of its elements left out and the others grown, so that sums keep their
 * mean. Whether element i stays is decided by bit pattern i of a stream of its own for
 * each weight (by purpose) and layer (by step): the same at every layout, and again
 * when activations are recomputed.
 */
static struct value *drop_out(struct graph *graph, const struct gemma_layer *layer,
                              struct value *x, enum param_role weight)
{
    const double rate = layer->dropout.rate;
    struct type type = x->type;
    type.dtype = DTYPE_U32;
    const uint32_t purpose = RANDOM_DROPOUT | (uint32_t)weight << 8;
    struct value *bits = build_random_bits(graph, layer->dropout.seed,
                                           layer->dropout.step, purpose, type);
    struct value *bound = build_scalar(graph, DTYPE_U32, rate * 0x1p32);
    return build_select(graph, build_compare(graph, COMPARE_GE, bits, bound),
                        build_scale(graph, x, 1.0 / (1.0 - rate)),
                        build_scalar(graph, x->type.dtype, 0.0));
}

/* What the weight's adapter adds: x [B, T, in], A [r, in], B [out, r] -> [B, T, out]. */
static struct value *adapt(struct graph *graph, const struct gemma_layer *layer,
                           struct value *x, enum param_role weight)
{
    struct value *a =
        build_use_param(graph, layer->params[GEMMA_LAYER_A + weight], layer->compute);
    struct value *b =
        build_use_param(graph, layer->params[GEMMA_LAYER_B + weight], layer->compute);
    if (layer->dropout.rate > 0.0) {
        x = drop_out(graph, layer, x, weight);
    }
    /* [B, T, r]: the scale costs least on the thinnest array. */
    struct value *thin =
        build_scale(graph, build_linear(graph, x, a), layer->lora_scale);
    return build_linear(graph, thin, b);
}

/* x [B, T, in] times a weight [out, in], with its adapter if it has one -> [B, T,
 * out]. */
static struct value *project(struct graph *graph, const struct gemma_layer *layer,
                             struct value *x, enum param_role weight)
{
    const char *outer = graph_push_scope(graph, params_role_name(weight));
    struct value *used = build_use_param(graph, layer->params[weight], layer->compute);
    struct value *y = build_linear(graph, x, used);
    if (layer->params[GEMMA_LAYER_A + weight] != NULL) {
        const char *inner = graph_push_scope(graph, "lora");
        y = build_add(graph, y, adapt(graph, layer, x, weight));
        graph_pop_scope(graph, inner);
    }
    graph_pop_scope(graph, outer);
    return y;
}

/* [B, T, heads * K] -> [B, T, heads, K] */
static struct value *split_heads(struct graph *graph, struct value *x, int64_t K)
{
    const struct shape *from = &x->type.shape;
    const int64_t dim[] = {from->dim[0], from->dim[1], from->dim[2] / K, K};
    return build_reshape(graph, x, type_shape(4, dim));
}

/* Of this kind of layer: sliding and full ones turn at different speeds. */
static struct value *rope(struct graph *graph, const struct gemma_layer *layer,
                          struct value *x)
{
    const struct layer_config *facts = &layer->config->layer[layer->layer];
    return build_rope(graph, x, layer->position, facts->rope_theta, facts->rope_factor,
                      facts->rotary_pairs);
}

/* K and V of this layer from its normed input x [B, T, D], into the stream: by way of the
 * cache, where there is one. Gemma 4's full layers may have no v_proj: V is then what
 * k_proj gives, before its norm. */
static void make_kv(struct graph *graph, const struct gemma_layer *layer,
                    struct value *x, struct gemma_stream *stream)
{
    const struct layer_config *facts = &layer->config->layer[layer->layer];
    /* [B, T, G, K] */
    struct value *raw = split_heads(graph, project(graph, layer, x, PARAM_K), facts->K);
    struct value *v =
        facts->k_eq_v ? raw
                      : split_heads(graph, project(graph, layer, x, PARAM_V), facts->K);
    if (layer->config->has_v_norm) {
        v = gemma_layer_norm(graph, layer->config, v, NULL, layer->compute);
    }
    struct value *k = rope(graph, layer, norm(graph, layer, raw, PARAM_K_NORM));
    if (layer->cache.k != NULL) {
        k = build_write_rows(graph, layer->cache.k, k, layer->cache.slots);
        v = build_write_rows(graph, layer->cache.v, v, layer->cache.slots);
    }
    stream->k[facts->is_sliding] = k;
    stream->v[facts->is_sliding] = v;
}

/* q [B, T, H, K] on the stream's K and V of the layer's kind; window 0 for full layers:
 * all keys before. */
static struct value *attend(struct graph *graph, const struct gemma_layer *layer,
                            struct value *q, const struct gemma_stream *stream)
{
    const struct model_config *config = layer->config;
    const bool is_sliding = config->layer[layer->layer].is_sliding;
    const int64_t window = is_sliding ? config->window : 0;
    struct value *k = stream->k[is_sliding];
    struct value *v = stream->v[is_sliding];
    if (layer->cache.key_position != NULL) {
        return build_attention_cached(graph, q, k, v, layer->position,
                                      layer->cache.key_position,
                                      config->attention_scale, window);
    }
    return build_attention(graph, q, k, v, layer->first_key, config->attention_scale,
                           window, NULL);
}

/* q, k [.., K] get a norm and are turned, v is not turned. A layer without K and V of
 * its own finds those of the last layer of its kind in the stream. */
static struct value *attention(struct graph *graph, const struct gemma_layer *layer,
                               struct value *x, struct gemma_stream *stream)
{
    const int64_t K = layer->config->layer[layer->layer].K;
    struct value *q = split_heads(graph, project(graph, layer, x, PARAM_Q), K);
    q = rope(graph, layer, norm(graph, layer, q, PARAM_Q_NORM));
    if (model_config_owns_kv(layer->config, layer->layer)) {
        make_kv(graph, layer, x, stream);
    }
    struct value *out = attend(graph, layer, q, stream);
    const struct shape *shape = &out->type.shape;
    const int64_t dim[] = {shape->dim[0], shape->dim[1], shape->dim[2] * shape->dim[3]};
    out = build_reshape(graph, out, type_shape(3, dim));
    return project(graph, layer, out, PARAM_O);
}

/* down(gelu_tanh(gate x) * (up x)), [B, T, D] -> [B, T, F] -> [B, T, D] */
static struct value *mlp(struct graph *graph, const struct gemma_layer *layer,
                         struct value *x)
{
    struct value *gate = project(graph, layer, x, PARAM_GATE);
    struct value *up = project(graph, layer, x, PARAM_UP);
    return project(graph, layer, build_geglu(graph, gate, up), PARAM_DOWN);
}

/* The gate reads the residual stream itself, without a norm. */
static struct value *per_layer_input(struct graph *graph,
                                     const struct gemma_layer *layer, struct value *h)
{
    struct value *gate = project(graph, layer, h, PARAM_PLE_GATE);
    struct value *mixed = build_geglu(graph, gate, layer->ple);
    return project(graph, layer, mixed, PARAM_PLE_OUT);
}

/* Norms stand before and behind each part, inside of the residual branch. */
void gemma_layer_build(struct graph *graph, const struct gemma_layer *layer,
                       struct gemma_stream *stream)
{
    struct value *h = stream->h;
    /* Attention, [B, T, D] -> [B, T, D]. */
    struct value *a = norm(graph, layer, h, PARAM_INPUT_NORM);
    a = attention(graph, layer, a, stream);
    h = build_add(graph, h, norm(graph, layer, a, PARAM_POST_ATTENTION_NORM));

    /* The feed-forward block. */
    struct value *m = norm(graph, layer, h, PARAM_PRE_MLP_NORM);
    m = mlp(graph, layer, m);
    h = build_add(graph, h, norm(graph, layer, m, PARAM_POST_MLP_NORM));

    if (layer->ple != NULL) {
        struct value *y = per_layer_input(graph, layer, h);
        h = build_add(graph, h, norm(graph, layer, y, PARAM_PLE_NORM));
    }
    if (layer->config->has_layer_scalar) {
        /* A number of its own for each layer, stored as [1]. */
        struct value *scalar =
            build_use_param(graph, layer->params[PARAM_LAYER_SCALAR], layer->compute);
        h = build_mul(graph, h, build_reshape(graph, scalar, type_shape(0, NULL)));
    }
    stream->h = h;
}
