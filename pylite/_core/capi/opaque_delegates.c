// c_api_opaque.h: delegates, and the functions of the context that only delegates call.
#include "opaque.h"

// A copy of the builder follows the struct.
TfLiteOpaqueDelegate *TfLiteOpaqueDelegateCreate(const TfLiteOpaqueDelegateBuilder *builder) {
  if (builder == NULL) return NULL;
  TfLiteDelegate *d = calloc(1, sizeof(TfLiteDelegate) + sizeof(TfLiteOpaqueDelegateBuilder));
  if (d == NULL) return NULL;
  d->opaque_delegate_builder = (TfLiteOpaqueDelegateBuilder *)(d + 1);
  *d->opaque_delegate_builder = *builder;
  d->data_ = builder->data;
  d->flags = builder->flags;
  return (TfLiteOpaqueDelegate *)d;
}

void TfLiteOpaqueDelegateDelete(TfLiteOpaqueDelegate *d) { free(d); }

void *TfLiteOpaqueDelegateGetData(const TfLiteOpaqueDelegate *opaque) {
  const TfLiteDelegate *d = (const TfLiteDelegate *)opaque;
  if (d == NULL) return NULL;
  const TfLiteOpaqueDelegateBuilder *builder = pl_opaque_builder(d);
  return builder != NULL ? builder->data : d->data_;
}

TfLiteStatus TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(TfLiteOpaqueContext *c, TfLiteOperator *op,
                                                                      const TfLiteIntArray *nodes,
                                                                      TfLiteOpaqueDelegate *delegate) {
  TfLiteRegistration reg;
  memset(&reg, 0, sizeof(reg));
  reg.registration_external = op;
  int before = HOST(c)->num_nodes;
  TfLiteStatus status =
      CONTEXT(c)->ReplaceNodeSubsetsWithDelegateKernels(CONTEXT(c), reg, nodes, (TfLiteDelegate *)delegate);
  if (HOST(c)->num_nodes == before) TfLiteOperatorDelete(op);     // no node was added that would own it
  return status;
}

TfLiteStatus TfLiteOpaqueContextAcquireSubgraphContext(TfLiteOpaqueContext *c, int index, TfLiteOpaqueContext **other) {
  return CONTEXT(c)->AcquireSubgraphContext(CONTEXT(c), index, (TfLiteContext **)other);
}
TfLiteStatus TfLiteOpaqueContextReleaseSubgraphContext(TfLiteOpaqueContext *c, int index) {
  return CONTEXT(c)->ReleaseSubgraphContext(CONTEXT(c), index);
}

TfLiteStatus TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable(TfLiteOpaqueContext *c, int index) {
  TfLiteContext *other = NULL;
  TfLiteStatus status = HOST(c)->callbacks->subgraph((pl_host *)c, index, &other);
  if (status == kTfLiteOk) ((pl_host *)other)->skippable = true;
  return status;
}
