# The declarations of host.h.
from libc.stdint cimport int64_t, uint64_t


cdef extern from "host.h" nogil:
    ctypedef int TfLiteStatus
    ctypedef struct TfLiteIntArray:
        int size
        int *data
    ctypedef struct TfLiteOperator "struct TfLiteOperator":
        const char *custom_name
        int version
    ctypedef struct TfLiteRegistration:
        int builtin_code
        const char *custom_name
        int version
    ctypedef struct TfLiteExternalContext:
        TfLiteStatus (*Refresh)(TfLiteContext *)
    ctypedef struct TfLiteDelegate:
        int64_t flags
    ctypedef struct TfLiteOpaqueDelegateBuilder:
        int64_t flags
    ctypedef int TfLiteDimensionType
    ctypedef struct TfLiteDimensionMetadata:
        TfLiteDimensionType format
        int dense_size
        TfLiteIntArray *array_segments
        TfLiteIntArray *array_indices
    ctypedef struct TfLiteSparsity:
        TfLiteIntArray *traversal_order
        TfLiteIntArray *block_map
        TfLiteDimensionMetadata *dim_metadata
    TfLiteDimensionType kTfLiteDimSparseCSR
    ctypedef union TfLitePtrUnion:
        char *raw
    ctypedef struct TfLiteTensor:
        int type
        TfLitePtrUnion data
        TfLiteIntArray *dims
        int allocation_type
        size_t bytes
        bint data_is_stale
    ctypedef struct TfLiteNode:
        TfLiteIntArray *inputs
        TfLiteIntArray *outputs
        TfLiteIntArray *temporaries
        void *builtin_data
        const void *custom_initial_data
        int custom_initial_data_size
        TfLiteDelegate *delegate
    ctypedef struct TfLiteContext:
        size_t tensors_size
        TfLiteTensor *tensors
        int recommended_num_threads
        void *profiler
    ctypedef struct pl_node:
        TfLiteNode node
        TfLiteRegistration reg
        bint owns_op
    ctypedef struct pl_profiler:
        pass
    ctypedef struct pl_host:
        TfLiteContext context
        pl_profiler *profiler
        size_t model_tensors
        size_t max_bytes
        pl_node **nodes
        int num_nodes
        int model_nodes
        TfLiteIntArray *plan
        TfLiteIntArray *model_plan
        TfLiteIntArray *inputs
        TfLiteIntArray *outputs
        TfLiteIntArray *variables
        char *errors
        char *name
        bint skippable
        void *python
    ctypedef struct pl_callbacks:
        TfLiteStatus (*replace)(pl_host *, const TfLiteRegistration *, TfLiteOperator *, const TfLiteIntArray *,
                                TfLiteDelegate *) noexcept
        TfLiteStatus (*preview)(pl_host *, const TfLiteIntArray *) noexcept
        TfLiteStatus (*metadata)(pl_host *, const char *, const char **, size_t *) noexcept
        TfLiteStatus (*subgraph)(pl_host *, int, TfLiteContext **) noexcept
    int kTfLiteOk, kTfLiteError, kTfLiteDynamic, kTfLiteMaxExternalContexts
    TfLiteIntArray *TfLiteIntArrayCreate(int)
    const TfLiteOpaqueDelegateBuilder *pl_opaque_builder(const TfLiteDelegate *)

    # profiler.c
    ctypedef struct pl_event:
        const pl_node *node
        const char *name
        uint64_t calls
        uint64_t nanoseconds
    pl_profiler *pl_profiler_new()
    void pl_profiler_record(pl_profiler *, bint)
    int pl_profiler_events(pl_profiler *, const pl_event **)
    void pl_profiler_clear(pl_profiler *)

    # trap.c
    ctypedef struct pl_guards:
        pass
    void pl_set_guards(const pl_guards *, bint)

    # registrations.c
    bint pl_registration_plausible(const TfLiteRegistration *)
    bint pl_operator_plausible(const TfLiteOperator *)
    bint pl_delegate_plausible(const TfLiteDelegate *)
    void pl_registration_read(const TfLiteRegistration *, TfLiteRegistration *, TfLiteOperator **)

    # buffer_handles.c
    TfLiteStatus pl_host_read_back(pl_host *, int)

    # delegate_params.c
    int pl_host_add_preview(pl_host *, const TfLiteIntArray *, const TfLiteIntArray *, const TfLiteIntArray *)

    # checks.c
    ctypedef struct pl_watched:
        int tensor
        bint input
    int PL_BAND
    enum: PL_TENSOR_TEXT
    bint pl_band_intact(const char *)
    int pl_node_overran(const pl_host *, const pl_node *)
    void pl_tensor_text(const pl_host *, int, char *, size_t)

    # calls.c
    void pl_host_set_kernel(pl_host *, int, const TfLiteRegistration *, TfLiteOperator *, bint)
    TfLiteStatus pl_node_init(pl_host *, pl_node *, const char *, size_t)
    TfLiteStatus pl_node_prepare(pl_host *, pl_node *)
    void pl_node_finalize(pl_host *, pl_node *)
    const char *pl_node_profiling_string(pl_host *, pl_node *)
    ctypedef struct pl_binding:
        int tensor
        char *data
        size_t bytes
        bint band
    int PL_FAILED, PL_OVERRUN, PL_UNDERRUN
    int pl_node_invoke(pl_host *, pl_node *, const pl_binding *, int, pl_watched *, int)

    # tables.c
    pl_host *pl_host_new(size_t, void (*)(TfLiteContext *), const pl_callbacks *, void *, TfLiteExternalContext **)
    void pl_host_free(pl_host *)
    int pl_host_set_tensor(pl_host *, int, const char *, int, const TfLiteIntArray *, const TfLiteIntArray *, int,
                           const void *, size_t, int)
    int pl_host_set_quantization(pl_host *, int, const float *, const int64_t *, int, int)
    int pl_host_set_blockwise(pl_host *, int, int, int, int, int)
    TfLiteSparsity *pl_host_add_sparsity(pl_host *, int, int)
    int pl_host_add_node(pl_host *, int, const char *, int, const TfLiteIntArray *, const TfLiteIntArray *,
                         const TfLiteIntArray *, const void *, size_t, const void *, int)

    # delegates.c
    TfLiteStatus pl_host_apply_delegate(pl_host *, TfLiteDelegate *)
    TfLiteStatus pl_host_add_delegate_node(pl_host *, const TfLiteRegistration *, TfLiteOperator *, TfLiteDelegate *,
                                           const TfLiteIntArray *, const TfLiteIntArray *, const TfLiteIntArray *)
    void pl_host_undo_delegates(pl_host *)
    void pl_delegate_destroy(void (*)(void *) noexcept, void *)

    # context.c
    void pl_context_fill(TfLiteContext *)
    void pl_host_refresh_external(pl_host *, TfLiteExternalContext *)
    char *pl_host_take_errors(pl_host *)
    void pl_host_take_back(pl_host *)
