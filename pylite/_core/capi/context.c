// The functions of TfLiteContext, which plug-ins call.  They check arguments, and report errors.
#include "host.h"

#include <pthread.h>
#include <stdio.h>

#define MAX_ERROR_BYTES 65536   // bytes of reported text that are kept
enum { TENSOR_BYTES_BEFORE_2_5 = 104, OLDEST_TENSOR_BYTES = 96 };     // of TfLiteTensor, on 64-bit machines

static pthread_mutex_t errors_lock = PTHREAD_MUTEX_INITIALIZER;     // plug-ins may report from threads of their own

// Formats before it takes the lock, because arguments that do not fit the format may fault; trap.c then jumps out.
static void report_va(pl_host *host, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return;
  size_t size = length < MAX_ERROR_BYTES ? (size_t)length + 1 : MAX_ERROR_BYTES;
  char *line = malloc(size);
  if (line == NULL) return;
  vsnprintf(line, size, format, arguments);
  pthread_mutex_lock(&errors_lock);
  size_t before = host->errors != NULL ? strlen(host->errors) + 1 : 0;
  char *text = before + size <= MAX_ERROR_BYTES ? realloc(host->errors, before + size) : NULL;
  if (text != NULL) {
    if (before) text[before - 1] = '\n';
    memcpy(text + before, line, size);
    host->errors = text;
  }
  pthread_mutex_unlock(&errors_lock);
  free(line);
}

char *pl_host_take_errors(pl_host *host) {
  pthread_mutex_lock(&errors_lock);
  char *text = host->errors;
  host->errors = NULL;
  pthread_mutex_unlock(&errors_lock);
  return text;
}

static void report(TfLiteContext *context, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  report_va((pl_host *)context, format, arguments);
  va_end(arguments);
}

// Is this the address of a tensor in the host's table?
static bool is_tensor_of(const pl_host *host, const TfLiteTensor *tensor) {
  const char *address = (const char *)tensor, *start = (const char *)host->context.tensors;
  return tensor != NULL && address >= start && address < start + host->context.tensors_size * sizeof(TfLiteTensor) &&
         (size_t)(address - start) % sizeof(TfLiteTensor) == 0;
}

// Is this the shape of any tensor in the host's table, and so not the caller's to give away?
static bool is_shape_of_table(const pl_host *host, const TfLiteIntArray *dims) {
  for (size_t i = 0; dims != NULL && i < host->num_tensors; i++) {
    if (host->tensors[i].dims == dims) return true;
  }
  return false;
}

// Sets bytes of a tensor with this shape; returns an error text if the shape is invalid, else NULL.
static const char *bytes_of(TfLiteType type, const TfLiteIntArray *dims, size_t *bytes) {
  size_t element, count = 1, bits = pl_packed_bits(type);
  bool empty = false;
  if (!pl_size_of(type, &element)) element = sizeof(void *);
  if (dims->size < 0) return "ResizeTensor was given a negative number of dimensions";
  for (int i = 0; i < dims->size; i++) {
    if (dims->data[i] < 0) return "ResizeTensor was given a negative dimension";
    if (dims->data[i] == 0) {
      empty = true;
    } else if (count > PTRDIFF_MAX / 2 / element / (size_t)dims->data[i]) {
      return "ResizeTensor was given a shape that is too large";
    } else {
      count *= (size_t)dims->data[i];
    }
  }
  if (empty) count = 0;
  *bytes = bits ? (count + 8 / bits - 1) / (8 / bits) : count * element;
  return NULL;
}

static bool in_arena(const TfLiteTensor *t) {
  return t->allocation_type == kTfLiteArenaRw || t->allocation_type == kTfLiteArenaRwPersistent;
}

// Why a tensor cannot be resized, or NULL.
static const char *not_resizable(const pl_host *host, const TfLiteTensor *tensor) {
  if (!is_tensor_of(host, tensor)) {
    size_t offset = (size_t)((const char *)tensor - (const char *)host->context.tensors);
    return offset < host->context.tensors_size * sizeof(TfLiteTensor) &&
                   (offset % TENSOR_BYTES_BEFORE_2_5 == 0 || offset % OLDEST_TENSOR_BYTES == 0)
               ? "ResizeTensor was given an address inside a tensor: the plug-in was built with TensorFlow before 2.5, "
                 "when tensors were smaller, and is not supported"
               : "ResizeTensor was given a tensor that is not of this context";
  }
  if (!in_arena(tensor) && tensor->allocation_type != kTfLiteDynamic &&
      tensor->allocation_type != kTfLitePersistentRo) {
    return "Attempting to resize a fixed-size tensor.";
  }
  return NULL;
}

// Is it an input of the kernel that is running?  Its memory is the arena's, another node's or a constant.
static bool is_running_input(const pl_host *host, const TfLiteTensor *tensor) {
  for (int i = 0; host->invoking && i < host->num_watched; i++) {
    if (host->watched[i].input && &host->context.tensors[host->watched[i].tensor] == tensor) return true;
  }
  return false;
}

static TfLiteStatus resize(TfLiteContext *context, TfLiteTensor *tensor, TfLiteIntArray *dims) {
  pl_host *host = (pl_host *)context;
  size_t bytes = 0;
  if (is_shape_of_table(host, dims)) dims = TfLiteIntArrayCopy(dims);       // it is freed, or becomes the tensor's
  const char *why = dims == NULL ? "ResizeTensor was given no shape" : not_resizable(host, tensor);
  if (why == NULL && tensor->data.raw != NULL && TfLiteIntArrayEqual(tensor->dims, dims)) {
    free(dims);
    return kTfLiteOk;
  }
  if (why == NULL && is_running_input(host, tensor)) why = "ResizeTensor was called in invoke for an input";
  if (why == NULL && host->invoking && in_arena(tensor)) {
    why = "ResizeTensor was called in invoke for a tensor of the arena; make it kTfLiteDynamic in prepare";
  }
  if (why == NULL && tensor->type != kTfLiteString) {
    why = bytes_of(tensor->type, dims, &bytes);
    if (why == NULL && in_arena(tensor)) {
      tensor->bytes = bytes;
    } else if (why == NULL && pl_host_allocate(host, tensor, bytes) != kTfLiteOk) {
      why = bytes > host->max_bytes ? "ResizeTensor needs more bytes than max_memory allows, or than this machine has"
                                    : "ResizeTensor is out of memory";
    }
  }
  if (why != NULL) {
    report(context, "%s", why);
    free(dims);
    return kTfLiteError;
  }
  free(tensor->dims);
  tensor->dims = dims;
  if (in_arena(tensor)) tensor->data.raw = NULL;
  return kTfLiteOk;
}

static TfLiteStatus resize_explicit(TfLiteContext *context, TfLiteTensor *tensor, int rank, const int *shape) {
  TfLiteIntArray *dims = rank >= 0 ? TfLiteIntArrayCreate(rank) : NULL;
  if (dims != NULL && rank > 0) memcpy(dims->data, shape, sizeof(int) * (size_t)rank);
  return resize(context, tensor, dims);
}

static TfLiteStatus add_tensors(TfLiteContext *context, int count, int *first) {
  pl_host *host = (pl_host *)context;
  if (count < 0 || (size_t)count > host->capacity - context->tensors_size) {
    report(context, "AddTensors cannot add %d more tensors: the table is full", count);
    return kTfLiteError;
  }
  if (first != NULL) *first = (int)context->tensors_size;
  for (int i = 0; i < count; i++) context->tensors[context->tensors_size + (size_t)i].buffer_handle = -1;
  host->num_tensors = context->tensors_size += (size_t)count;
  return kTfLiteOk;
}

static TfLiteStatus get_plan(TfLiteContext *context, TfLiteIntArray **plan) {
  pl_host *host = (pl_host *)context;
  if (!host->delegating) {
    report(context, "GetExecutionPlan can only be called in Prepare of a delegate");
    return kTfLiteError;
  }
  free(host->plan_copy);
  host->plan_copy = TfLiteIntArrayCopy(host->plan);
  *plan = host->plan_copy;
  return host->plan_copy != NULL ? kTfLiteOk : kTfLiteError;
}

static TfLiteStatus get_node(TfLiteContext *context, int index, TfLiteNode **node, TfLiteRegistration **reg) {
  pl_host *host = (pl_host *)context;
  if (!host->delegating) {
    report(context, "GetNodeAndRegistration can only be called in Prepare of a delegate");
    return kTfLiteError;
  }
  if (index < 0 || index >= host->num_nodes) {
    report(context, "GetNodeAndRegistration was given node %d of %d nodes", index, host->num_nodes);
    return kTfLiteError;
  }
  *node = &host->nodes[index]->node;
  *reg = &host->nodes[index]->reg;
  return kTfLiteOk;
}

// Are these valid arguments of a function that only a delegate's Prepare may call?  Reports if not.
static bool checked_nodes(pl_host *host, const char *function, const TfLiteIntArray *nodes) {
  if (!host->delegating) {
    report(&host->context, "%s can only be called in Prepare of a delegate", function);
    return false;
  }
  if (host->lent_to != NULL) {
    report(&host->lent_to->context, "%s was given a context from AcquireSubgraphContext: nodes of another subgraph "
           "cannot be taken; Prepare is called for each subgraph", function);
    return false;
  }
  for (int i = 0; nodes != NULL && i < nodes->size; i++) {
    if (nodes->data[i] < 0 || nodes->data[i] >= host->num_nodes) {
      report(&host->context, "%s was given node %d of %d nodes", function, nodes->data[i], host->num_nodes);
      return false;
    }
  }
  return nodes != NULL;
}

static TfLiteStatus replace(TfLiteContext *context, TfLiteRegistration registration, const TfLiteIntArray *nodes,
                            TfLiteDelegate *delegate) {
  pl_host *host = (pl_host *)context;
  TfLiteRegistration reg;
  TfLiteOperator *op;
  pl_registration_read(&registration, &reg, &op);
  if (!checked_nodes(host, "ReplaceNodeSubsetsWithDelegateKernels", nodes)) return kTfLiteError;
  if (delegate == NULL) {
    report(context, "ReplaceNodeSubsetsWithDelegateKernels was given no delegate");
    return kTfLiteError;
  }
  if (nodes->size == 0) return kTfLiteOk;
  void *trap = pl_trap_suspend();
  TfLiteStatus status = host->callbacks->replace(host, &reg, op, nodes, delegate);
  pl_trap_resume(trap);
  return status;
}

static TfLiteStatus preview(TfLiteContext *context, const TfLiteIntArray *nodes, TfLiteDelegateParams **params,
                            int *count) {
  pl_host *host = (pl_host *)context;
  if (!checked_nodes(host, "PreviewDelegatePartitioning", nodes)) return kTfLiteError;
  pl_host_drop_previews(host);
  void *trap = pl_trap_suspend();
  TfLiteStatus status = host->callbacks->preview(host, nodes);
  pl_trap_resume(trap);
  *params = host->previews;
  *count = host->num_previews;
  return status;
}

static TfLiteExternalContext *get_external(TfLiteContext *context, TfLiteExternalContextType type) {
  return (unsigned)type < kTfLiteMaxExternalContexts ? ((pl_host *)context)->externals[type] : NULL;
}

static void set_external(TfLiteContext *context, TfLiteExternalContextType type, TfLiteExternalContext *external) {
  if ((unsigned)type < kTfLiteMaxExternalContexts) ((pl_host *)context)->externals[type] = external;
}

typedef struct refresh_call {
  TfLiteContext *context;
  TfLiteExternalContext *external;
} refresh_call;

static TfLiteStatus run_refresh(void *arguments) {
  const refresh_call *c = arguments;
  return c->external->Refresh(c->context);
}

void pl_host_refresh_external(pl_host *host, TfLiteExternalContext *external) {
  refresh_call call = {&host->context, external};
  pl_guard.any(run_refresh, &call, &host->context);
}

static TfLiteStatus get_metadata(const TfLiteContext *context, const char *name, const char **data, size_t *bytes) {
  pl_host *host = (pl_host *)context;
  if (name == NULL) return kTfLiteError;
  void *trap = pl_trap_suspend();
  TfLiteStatus status = host->callbacks->metadata(host, name, data, bytes);
  pl_trap_resume(trap);
  return status;
}

static TfLiteStatus subgraph(pl_host *host, int index, TfLiteContext **other) {
  void *trap = pl_trap_suspend();
  TfLiteStatus status = host->callbacks->subgraph(host, index, other);
  pl_trap_resume(trap);
  return status;
}

static TfLiteStatus acquire(TfLiteContext *context, int index, TfLiteContext **other) {
  pl_host *host = (pl_host *)context;
  if (!host->delegating) {
    report(context, "AcquireSubgraphContext can only be called in Prepare of a delegate");
    return kTfLiteError;
  }
  TfLiteStatus status = subgraph(host, index, other);
  if (status == kTfLiteOk && *other != context) {
    ((pl_host *)*other)->delegating = true;
    ((pl_host *)*other)->lent_to = host;
  }
  return status;
}

static TfLiteStatus release(TfLiteContext *context, int index) {
  pl_host *host = (pl_host *)context;
  TfLiteContext *other = NULL;
  TfLiteStatus status = subgraph(host, index, &other);
  if (status == kTfLiteOk && other != context) pl_host_take_back((pl_host *)other);
  return status;
}

void pl_host_take_back(pl_host *host) {
  host->delegating = false;
  host->lent_to = NULL;
}

void pl_context_fill(TfLiteContext *c) {
  c->GetExecutionPlan = get_plan;
  c->ResizeTensor = resize;
  c->ReportError = report;
  c->AddTensors = add_tensors;
  c->GetNodeAndRegistration = get_node;
  c->ReplaceNodeSubsetsWithDelegateKernels = replace;
  c->GetExternalContext = get_external;
  c->SetExternalContext = set_external;
  c->ResizeTensorExplicit = resize_explicit;
  c->PreviewDelegatePartitioning = preview;
  c->GetModelMetadata = get_metadata;
  c->AcquireSubgraphContext = acquire;
  c->ReleaseSubgraphContext = release;
}
