from pylite.tasks.audio import AudioClassifier as AudioClassifier
from pylite.tasks.audio import AudioFormat as AudioFormat
from pylite.tasks.audio import AudioRecord as AudioRecord
from pylite.tasks.audio import TensorAudio as TensorAudio
from pylite.tasks.detection import FaceDetector as FaceDetector
from pylite.tasks.detection import ObjectDetector as ObjectDetector
from pylite.tasks.results import BoundingBox as BoundingBox
from pylite.tasks.results import Category as Category
from pylite.tasks.results import ClassificationResult as ClassificationResult
from pylite.tasks.results import Classifications as Classifications
from pylite.tasks.results import ColoredLabel as ColoredLabel
from pylite.tasks.results import Detection as Detection
from pylite.tasks.results import Embedding as Embedding
from pylite.tasks.results import Keypoint as Keypoint
from pylite.tasks.results import Pose as Pose
from pylite.tasks.results import Results as Results
from pylite.tasks.results import Segmentation as Segmentation
from pylite.tasks.task import Options as Options
from pylite.tasks.task import OutputType as OutputType
from pylite.tasks.task import TensorImage as TensorImage
from pylite.tasks.text import TextClassifier as TextClassifier
from pylite.tasks.text import TextEmbedder as TextEmbedder
from pylite.tasks.vision import ImageClassifier as ImageClassifier
from pylite.tasks.vision import ImageEmbedder as ImageEmbedder
from pylite.tasks.vision import ImageSegmenter as ImageSegmenter
from pylite.tasks.vision import PoseEstimator as PoseEstimator

BaseOptions = Options
ClassificationOptions = Options
DetectionOptions = Options
EmbeddingOptions = Options
SegmentationOptions = Options
AudioClassifierOptions = Options
FaceDetectorOptions = Options
ImageClassifierOptions = Options
ImageEmbedderOptions = Options
ImageSegmenterOptions = Options
ObjectDetectorOptions = Options
PoseEstimatorOptions = Options
TextClassifierOptions = Options
TextEmbedderOptions = Options

BertNLClassifier = TextClassifier
BertNLClassifierOptions = Options
DetectionResult = Results
EmbeddingResult = Embedding
NLClassifier = TextClassifier
NLClassifierOptions = Options
SegmentationResult = Segmentation
