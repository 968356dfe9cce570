/*
 * gemma_layer - one decoder layer:
 *
 *     h += norm(attention(norm(h)))
 *     h += norm(down(gelu(gate(f)) * up(f))),  f = norm(h)
 *     h += norm(out(gelu(ple_gate(h)) * ple))       (per-layer embeddings)
 *     h *= layer_scalar                             (Gemma 4)
 */
#include "model/gemma_layer.h"

#include "graph/build.h"

/* The weight is [last dimension of x]; it is gathered here, where it is used. */
struct value *gemma_layer_norm(struct graph *graph, const struct model_config *config,
                               struct value *x, struct value *weight,
                               enum dtype compute)
{
    struct value *used =
        weight == NULL ? NULL : build_use_param(graph, weight, compute);
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

/* x [B, T, in] times a weight [out, in] -> [B, T, out]. */
static struct value *project(struct graph *graph, const struct gemma_layer *layer,
                             struct value *x, enum param_role weight)
{
    const char *outer = graph_push_scope(graph, params_role_name(weight));
    struct value *used = build_use_param(graph, layer->params[weight], layer->compute);
    struct value *y = build_linear(graph, x, used);
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

/* K and V of this layer from its normed input x [B, T, D], into the stream. Gemma 4's
 * full layers may have no v_proj: V is then what k_proj gives, before its norm. */
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
    stream->k[facts->is_sliding] =
        rope(graph, layer, norm(graph, layer, raw, PARAM_K_NORM));
    stream->v[facts->is_sliding] = v;
}

/* q, k [.., K] get a norm and are turned, v is not turned. A layer without K and V of
 * its own finds those of the last layer of its kind in the stream. */
static struct value *attention(struct graph *graph, const struct gemma_layer *layer,
                               struct value *x, struct gemma_stream *stream)
{
    const struct model_config *config = layer->config;
    const struct layer_config *facts = &config->layer[layer->layer];
    struct value *q = split_heads(graph, project(graph, layer, x, PARAM_Q), facts->K);
    q = rope(graph, layer, norm(graph, layer, q, PARAM_Q_NORM));
    if (model_config_owns_kv(config, layer->layer)) {
        make_kv(graph, layer, x, stream);
    }
    /* [B, T, H, K]; window 0 for full layers: all keys from first_key on. */
    struct value *out = build_attention(graph, q, stream->k[facts->is_sliding],
                                        stream->v[facts->is_sliding], layer->first_key,
                                        config->attention_scale,
                                        facts->is_sliding ? config->window : 0, NULL);
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
