"""The names that the change stream knows, in the order in which the server lists them where a request has another.

Only names live here: the stream has lines for a few of them (see sync.py).
"""

from __future__ import annotations

_REQUESTS = """
    AlbumsV1 AlbumsV2 AlbumUsersV1 AlbumToAssetsV1 AlbumAssetsV1 AlbumAssetsV2 AlbumAssetExifsV1 AssetsV1 AssetsV2
    AssetExifsV1 AssetEditsV1 AssetMetadataV1 AssetOcrV1 AuthUsersV1 MemoriesV1 MemoryToAssetsV1 PartnersV1
    PartnerAssetsV1 PartnerAssetsV2 PartnerAssetExifsV1 PartnerStacksV1 StacksV1 UsersV1 PeopleV1 AssetFacesV1
    AssetFacesV2 UserMetadataV1
"""
_ENTITIES = """
    AuthUserV1 UserV1 UserDeleteV1 AssetV1 AssetV2 AssetDeleteV1 AssetExifV1 AssetEditV1 AssetEditDeleteV1
    AssetMetadataV1 AssetMetadataDeleteV1 AssetOcrV1 AssetOcrDeleteV1 PartnerV1 PartnerDeleteV1 PartnerAssetV1
    PartnerAssetV2 PartnerAssetBackfillV1 PartnerAssetBackfillV2 PartnerAssetDeleteV1 PartnerAssetExifV1
    PartnerAssetExifBackfillV1 PartnerStackBackfillV1 PartnerStackDeleteV1 PartnerStackV1 AlbumV1 AlbumV2
    AlbumDeleteV1 AlbumUserV1 AlbumUserBackfillV1 AlbumUserDeleteV1 AlbumAssetCreateV1 AlbumAssetCreateV2
    AlbumAssetUpdateV1 AlbumAssetUpdateV2 AlbumAssetBackfillV1 AlbumAssetBackfillV2 AlbumAssetExifCreateV1
    AlbumAssetExifUpdateV1 AlbumAssetExifBackfillV1 AlbumToAssetV1 AlbumToAssetDeleteV1 AlbumToAssetBackfillV1
    MemoryV1 MemoryDeleteV1 MemoryToAssetV1 MemoryToAssetDeleteV1 StackV1 StackDeleteV1 PersonV1 PersonDeleteV1
    AssetFaceV1 AssetFaceV2 AssetFaceDeleteV1 UserMetadataV1 UserMetadataDeleteV1 SyncAckV1 SyncResetV1
    SyncCompleteV1
"""
_SINCE_3 = """
    AlbumsV2 AlbumAssetsV2 AssetsV2 AssetOcrV1 PartnerAssetsV2 AssetV2 AssetOcrV1 AssetOcrDeleteV1 PartnerAssetV2
    PartnerAssetBackfillV2 AlbumV2 AlbumAssetCreateV2 AlbumAssetUpdateV2 AlbumAssetBackfillV2
"""


def request_types(*, modern: bool) -> tuple[str, ...]:
    """What a stream request may ask for, in 3.x or in 2.x."""
    return _names(_REQUESTS, modern)


def entity_types(*, modern: bool) -> tuple[str, ...]:
    """What a line, and so an ack, may be of."""
    return _names(_ENTITIES, modern)


def _names(words: str, modern: bool) -> tuple[str, ...]:
    return tuple(name for name in words.split() if modern or name not in _SINCE_3.split())
