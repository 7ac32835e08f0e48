// MyDelegate: runs float CONV_2D and MEAN nodes, in plain loops, in place of the runtime.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/builtin_op_data.h"
#include "tensorflow/lite/context_util.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"
#include "tensorflow/lite/kernels/kernel_util.h"
#include "tensorflow/lite/util.h"

namespace {

// One node that a kernel stands for: its op, its tensors, its parameters.
struct Step {
  int code;
  std::vector<int> inputs;
  int output;
  TfLiteConvParams conv;
};

class MyDelegate {
 public:
  static bool SupportedOp(TfLiteContext* context, const TfLiteNode* node, const TfLiteRegistration* registration) {
    for (int i : tflite::TfLiteIntArrayView(node->outputs)) {
      if (context->tensors[i].type != kTfLiteFloat32) return false;
    }
    switch (registration->builtin_code) {
      case kTfLiteBuiltinConv2d:
        return static_cast<TfLiteConvParams*>(node->builtin_data)->padding == kTfLitePaddingValid;
      case kTfLiteBuiltinMean:
        return MeanOverRowsAndColumns(context, node);
      default:
        return false;
    }
  }

  // Nodes may only be looked up while the delegate is applied, so the kernel notes what it needs here.
  TfLiteStatus Init(TfLiteContext* context, const TfLiteDelegateParams* params) {
    for (int index : tflite::TfLiteIntArrayView(params->nodes_to_replace)) {
      TfLiteNode* node;
      TfLiteRegistration* registration;
      TF_LITE_ENSURE_STATUS(context->GetNodeAndRegistration(context, index, &node, &registration));
      Step step = {registration->builtin_code, {}, node->outputs->data[0], {}};
      for (int i : tflite::TfLiteIntArrayView(node->inputs)) step.inputs.push_back(i);
      if (step.code == kTfLiteBuiltinConv2d) step.conv = *static_cast<TfLiteConvParams*>(node->builtin_data);
      steps_.push_back(step);
    }
    return kTfLiteOk;
  }

  // Tensors between two steps are known to nobody else and have no memory: it is ours to provide.
  TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
    buffers_.resize(context->tensors_size);
    for (const Step& step : steps_) {
      const TfLiteTensor* t = &context->tensors[step.output];
      bool outside = false;
      for (int i : tflite::TfLiteIntArrayView(node->outputs)) outside = outside || i == step.output;
      if (!outside) buffers_[step.output].resize(static_cast<size_t>(tflite::NumElements(t)));
    }
    return kTfLiteOk;
  }

  TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode*) {
    for (const Step& step : steps_) {
      if (step.code == kTfLiteBuiltinConv2d) {
        Conv(context, step);
      } else {
        Mean(context, step);
      }
    }
    return kTfLiteOk;
  }

 private:
  static bool MeanOverRowsAndColumns(TfLiteContext* context, const TfLiteNode* node) {
    const TfLiteTensor& axes = context->tensors[node->inputs->data[1]];
    return tflite::IsConstantTensor(&axes) && axes.bytes == 2 * sizeof(int) && axes.data.i32[0] == 1 &&
           axes.data.i32[1] == 2;
  }

  // Data pointers hold for one invoke only.
  float* Data(TfLiteContext* context, int index) {
    return buffers_[index].empty() ? context->tensors[index].data.f : buffers_[index].data();
  }

  void Conv(TfLiteContext* context, const Step& step) {
    const int* x = context->tensors[step.inputs[0]].dims->data;
    const int* w = context->tensors[step.inputs[1]].dims->data;
    const int* y = context->tensors[step.output].dims->data;
    const float* input = Data(context, step.inputs[0]);
    const float* weights = Data(context, step.inputs[1]);
    const float* bias = step.inputs.size() > 2 && step.inputs[2] >= 0 ? Data(context, step.inputs[2]) : nullptr;
    float* output = Data(context, step.output);
    for (int n = 0; n < y[0]; ++n)
      for (int i = 0; i < y[1]; ++i)
        for (int j = 0; j < y[2]; ++j)
          for (int m = 0; m < y[3]; ++m) {
            float sum = bias != nullptr ? bias[m] : 0;
            for (int k = 0; k < w[1]; ++k)
              for (int l = 0; l < w[2]; ++l) {
                const int row = i * step.conv.stride_height + k * step.conv.dilation_height_factor;
                const int column = j * step.conv.stride_width + l * step.conv.dilation_width_factor;
                for (int c = 0; c < w[3]; ++c)
                  sum += input[((n * x[1] + row) * x[2] + column) * x[3] + c] *
                         weights[((m * w[1] + k) * w[2] + l) * w[3] + c];
              }
            if (step.conv.activation == kTfLiteActRelu) sum = std::max(sum, 0.0f);
            *output++ = sum;
          }
  }

  void Mean(TfLiteContext* context, const Step& step) {
    const int* x = context->tensors[step.inputs[0]].dims->data;
    const float* input = Data(context, step.inputs[0]);
    float* output = Data(context, step.output);
    const int pixels = x[1] * x[2];
    for (int n = 0; n < x[0]; ++n)
      for (int c = 0; c < x[3]; ++c) {
        float sum = 0;
        for (int p = 0; p < pixels; ++p) sum += input[(n * pixels + p) * x[3] + c];
        *output++ = sum / static_cast<float>(pixels);
      }
  }

  std::vector<Step> steps_;
  std::vector<std::vector<float>> buffers_;
};

TfLiteRegistration KernelRegistration() {
  TfLiteRegistration registration = {};   // every field: a runtime may read all of them
  registration.builtin_code = kTfLiteBuiltinDelegate;
  registration.custom_name = "MyDelegate";
  registration.version = 1;
  registration.init = [](TfLiteContext* context, const char* buffer, size_t) -> void* {
    auto* kernel = new MyDelegate;
    if (kernel->Init(context, reinterpret_cast<const TfLiteDelegateParams*>(buffer)) == kTfLiteOk) return kernel;
    delete kernel;
    return TfLiteKernelInitFailed();
  };
  registration.free = [](TfLiteContext*, void* buffer) { delete static_cast<MyDelegate*>(buffer); };
  registration.prepare = [](TfLiteContext* context, TfLiteNode* node) {
    return static_cast<MyDelegate*>(node->user_data)->Prepare(context, node);
  };
  registration.invoke = [](TfLiteContext* context, TfLiteNode* node) {
    return static_cast<MyDelegate*>(node->user_data)->Invoke(context, node);
  };
  return registration;
}

// Claims every node that MyDelegate can run.
TfLiteStatus DelegatePrepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  std::vector<int> supported_nodes;
  TfLiteIntArray* plan;
  TF_LITE_ENSURE_STATUS(context->GetExecutionPlan(context, &plan));
  for (int node_index : tflite::TfLiteIntArrayView(plan)) {
    TfLiteNode* node;
    TfLiteRegistration* registration;
    TF_LITE_ENSURE_STATUS(context->GetNodeAndRegistration(context, node_index, &node, &registration));
    if (MyDelegate::SupportedOp(context, node, registration)) supported_nodes.push_back(node_index);
  }
  TfLiteIntArray* nodes = tflite::ConvertVectorToTfLiteIntArray(supported_nodes);
  const TfLiteStatus status =
      context->ReplaceNodeSubsetsWithDelegateKernels(context, KernelRegistration(), nodes, delegate);
  TfLiteIntArrayFree(nodes);
  return status;
}

}  // namespace

extern "C" {

TfLiteDelegate* tflite_plugin_create_delegate(const char* const*, const char* const*, size_t, void (*)(const char*)) {
  auto* delegate = new TfLiteDelegate(TfLiteDelegateCreate());
  delegate->flags = kTfLiteDelegateFlagsNone;
  delegate->Prepare = DelegatePrepare;
  return delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { delete delegate; }

}  // extern "C"
